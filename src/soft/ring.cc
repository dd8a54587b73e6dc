#include "src/soft/ring.h"

#include "src/base/check.h"
#include "src/base/clock.h"
#include "src/base/yielding.h"

#include <bit>

namespace mesh::soft {

namespace {
constexpr std::size_t kHeaderBytes = 1024;
static_assert(sizeof(RingHeader) <= kHeaderBytes);
}  // namespace

std::size_t Ring::bytes_for(std::uint32_t slots) {
  return kHeaderBytes + std::size_t{slots} * (kRequestStride + sizeof(RingResponse)) +
         2 * std::size_t{kStreamBytes};
}

// The memory is zeroed, and zeroed memory is all that its atomics need, so a cast constructs them.
Ring::Ring(Segment memory, std::uint32_t slots, Sharing sharing)
    : memory_(std::move(memory)), sharing_(sharing), mask_(slots - 1) {
  CHECK(std::has_single_bit(slots) && memory_.bytes() >= bytes_for(slots));
  std::byte* at = memory_.data();
  header_ = reinterpret_cast<RingHeader*>(at);
  requests_ = at += kHeaderBytes;
  responses_ = reinterpret_cast<RingResponse*>(at += std::size_t{slots} * kRequestStride);
  data_stream_ = at += std::size_t{slots} * sizeof(RingResponse);
  read_stream_ = at + kStreamBytes;
  DCHECK(read_stream_ + kStreamBytes == memory_.data() + bytes_for(slots));
}

Result<std::shared_ptr<Ring>> Ring::create(std::uint32_t slots, Sharing sharing) {
  const std::uint32_t rounded = std::bit_ceil(slots < 4 ? 4 : slots);
  DCHECK(rounded <= kRingSlotsMax);
  Result<Segment> memory = Segment::create(bytes_for(rounded), sharing);
  if (!memory.ok()) return memory.status();
  std::shared_ptr<Ring> ring(new Ring(std::move(*memory), rounded, sharing));
  ring->header_->magic = kRingMagic;
  ring->header_->slots = rounded;
  return ring;
}

Result<std::shared_ptr<Ring>> Ring::map(UniqueFd fd, std::uint32_t slots) {
  if (slots < 4 || slots > kRingSlotsMax || !std::has_single_bit(slots)) return Errc::Protocol;
  Result<Segment> memory = Segment::map(std::move(fd), bytes_for(slots));
  if (!memory.ok()) return memory.status();
  std::shared_ptr<Ring> ring(new Ring(std::move(*memory), slots, Sharing::Host));
  if (ring->header_->magic != kRingMagic || ring->header_->slots != slots) return Errc::Protocol;
  return ring;
}

void Ring::close() noexcept {
  header_->closed.store(1, std::memory_order_seq_cst);
  const Clock clock;
  std::uint64_t give_up_ns = 0;
  Yielding target;
  while (header_->busy.load(std::memory_order_seq_cst) != 0) {
    target.wait();
    if (sharing_ == Sharing::Process) continue;
    const std::uint64_t now_ns = clock.now_ns();
    if (give_up_ns == 0) give_up_ns = now_ns + kCloseWaitNs;
    if (now_ns > give_up_ns) return;
  }
}

}  // namespace mesh::soft
