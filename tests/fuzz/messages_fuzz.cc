// Decodes bodies of control messages; the first byte chooses the type. A body that decodes is
// encoded to its own bytes again.
#include "engine/control/relay_frames.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/quiet_log.h"

namespace mesh {
namespace {

template <typename Body>
void round_trip(std::span<const std::byte> bytes) {
  Body body;
  if (!engine::decode(bytes.data(), bytes.size(), &body).ok()) return;
  const engine::Bytes frame = engine::encode(engine::FrameHeader{}, body);
  const std::span<const std::byte> again = std::span(frame).subspan(engine::kFrameHeaderBytes);
  fuzz::expect(std::equal(again.begin(), again.end(), bytes.begin(), bytes.end()),
               "a body that is not encoded as it was decoded");
}

void header_round_trip(std::span<const std::byte> bytes) {
  std::uint16_t version = 0;
  const Result<engine::FrameHeader> header =
      engine::decode_header(bytes.data(), bytes.size(), &version);
  if (!header.ok()) return;
  const engine::Bytes frame = engine::encode(*header, engine::Bye{});
  const Result<engine::FrameHeader> again =
      engine::decode_header(frame.data(), frame.size(), &version);
  fuzz::expect(again.ok() && again->link == header->link && again->sequence == header->sequence &&
                   again->epoch == header->epoch && again->acknowledged == header->acknowledged,
               "a header that changes on its way");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  const engine::MessageType type{input.u8()};
  const std::span<const std::byte> bytes = std::as_bytes(input.rest());
  const auto go_round = [bytes](const auto& frame) {
    round_trip<std::decay_t<decltype(frame)>>(bytes);
    return true;
  };
  if (!visit_frame(engine::LinkFrames{}, type, go_round) &&
      !visit_frame(engine::RelayFrames{}, type, go_round))
    header_round_trip(bytes);
  return 0;
}

}  // namespace mesh
