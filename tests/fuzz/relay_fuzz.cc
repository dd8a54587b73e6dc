// Plays chains whose neighbours do anything: slots and counts of any content at any time, devices
// that complete and fail when the input says so. The device checks what it is told to read.
#include "src/relay/wire.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/played_chain.h"
#include "tests/fuzz/played_end.h"
#include "tests/fuzz/quiet_log.h"

namespace mesh {
namespace {

// Checks that whatever passes as a slot lies within the slot or within the payload ring.
void check_slot(fuzz::Input& input) {
  relay::RingTarget ring;
  const auto ring_words = input.bytes(sizeof ring);
  std::memcpy(&ring, ring_words.data(), ring_words.size());
  if (!relay::is_ring(ring)) return;
  relay::SlotHeader header;
  const auto words = input.bytes(sizeof header);
  std::memcpy(&header, words.data(), words.size());
  const auto written = input.take<std::uint32_t>();
  const relay::SlotArrival arrival{.number = header.number, .written_bytes = written};
  if (!relay::is_slot(header, arrival, ring)) return;
  const std::uint64_t begin = std::uint64_t{header.payload} * relay::kPayloadUnit;
  const bool inside = header.payload == relay::kInSlot
                          ? sizeof header + header.bytes <= relay::kSlotBytes
                          : begin + header.bytes <= ring.payload_bytes;
  fuzz::expect(inside && header.bytes <= ring.wr_bytes, "a slot beyond its ring");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  switch (input.below(3)) {
    case 0: fuzz::PlayedChain(input).play(); break;
    case 1: fuzz::PlayedEnd(input).play(); break;
    default: check_slot(input); break;
  }
  return 0;
}

}  // namespace mesh
