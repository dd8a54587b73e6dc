#include "tests/fuzz/said.h"

#include "tests/fuzz/quiet_log.h"

namespace mesh::fuzz {

using engine::MessageType;

namespace {

template <typename Body>
Body read(std::span<const std::byte> bytes) {
  Body body;
  expect(engine::decode(bytes.data(), bytes.size(), &body).ok(), "we say what we would not read");
  return body;
}

void note(std::vector<Place>& places, const Place& place) {
  if (places.size() == kSaidMax) places.erase(places.begin());
  places.push_back(place);
}

}  // namespace

MessageType Said::take(const engine::Bytes& frame) {
  std::uint16_t version = 0;
  const Result<engine::FrameHeader> header =
      engine::decode_header(frame.data(), frame.size(), &version);
  expect(header.ok() && frame.size() == engine::kFrameHeaderBytes + header->body_bytes,
         "we say what is no frame");
  const std::span<const std::byte> body = std::span(frame).subspan(engine::kFrameHeaderBytes);
  if (header->type == MessageType::Hello) {
    link = header->link;
    qps = read<engine::Hello>(body).qps;
  } else if (header->type == MessageType::Resume) {
    link = header->link;
    read<engine::Resume>(body);
  } else if (header->type == MessageType::Summon) {
    read<engine::Summon>(body);
  } else if (header->type == MessageType::Welcome) {
    engine::Welcome welcome = read<engine::Welcome>(body);
    qps = welcome.qps;
    paths = std::move(welcome.paths);
  } else if (header->type == MessageType::Attach) {
    const engine::Attach attach = read<engine::Attach>(body);
    for (const engine::WirePath& path : attach.paths) {
      note(windows, {.address = path.counters_address, .rkey = path.counters_rkey});
    }
  } else if (header->type == MessageType::Open) {
    const engine::Open open = read<engine::Open>(body);
    note(credits, {.address = open.credits_address,
                   .rkey = open.credits_rkey.empty() ? 0 : open.credits_rkey[0],
                   .channel = open.channel,
                   .life = open.life});
  } else if (header->type == MessageType::Opened) {
    const engine::Opened opened = read<engine::Opened>(body);
    if (opened.records_rkey.empty()) return header->type;
    note(records, {.address = opened.records_address,
                   .rkey = opened.records_rkey[0],
                   .channel = opened.channel,
                   .life = 1});
  }
  return header->type;
}

}  // namespace mesh::fuzz
