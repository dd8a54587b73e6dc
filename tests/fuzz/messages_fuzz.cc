// Decodes bodies of control messages; the first byte chooses the type. A body that decodes is
// encoded to its own bytes again.
#include "engine/control/relay_frames.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/quiet_log.h"

#include <algorithm>

namespace mesh {

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  fuzz::quiet_log();
  return 0;
}

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
  const std::uint8_t type = input.u8();
  const std::span<const std::byte> bytes = std::as_bytes(input.rest());
  switch (type) {
    case 1: round_trip<engine::Hello>(bytes); break;
    case 2: round_trip<engine::Welcome>(bytes); break;
    case 3: round_trip<engine::Attach>(bytes); break;
    case 4: round_trip<engine::Ready>(bytes); break;
    case 5: round_trip<engine::Refuse>(bytes); break;
    case 6: round_trip<engine::Open>(bytes); break;
    case 7: round_trip<engine::Opened>(bytes); break;
    case 8: round_trip<engine::Revoke>(bytes); break;
    case 9: round_trip<engine::Revoked>(bytes); break;
    case 10: round_trip<engine::Close>(bytes); break;
    case 11: round_trip<engine::Bye>(bytes); break;
    case 12: round_trip<engine::Fence>(bytes); break;
    case 13: round_trip<engine::Reopen>(bytes); break;
    case 14: round_trip<engine::Reopened>(bytes); break;
    case 15: round_trip<engine::PathUp>(bytes); break;
    case 16: round_trip<engine::Acknowledge>(bytes); break;
    case 17: round_trip<engine::Resume>(bytes); break;
    case 18: round_trip<engine::Resumed>(bytes); break;
    case 19: round_trip<engine::Summon>(bytes); break;
    case 20: round_trip<engine::Decline>(bytes); break;
    case 21: round_trip<engine::AskPeers>(bytes); break;
    case 22: round_trip<engine::PeersAre>(bytes); break;
    case 23: round_trip<engine::Chain>(bytes); break;
    case 24: round_trip<engine::Chained>(bytes); break;
    case 25: round_trip<engine::Join>(bytes); break;
    case 26: round_trip<engine::Joined>(bytes); break;
    case 27: round_trip<engine::Cut>(bytes); break;
    default: header_round_trip(bytes); break;
  }
  return 0;
}

}  // namespace mesh
