#pragma once
// The send side of one queue pair as its target sees it: requests to the target, responses back,
// and two byte streams for what cannot be copied directly. Each counter has one writer and only
// grows; its slot is counter & mask. Thread: the initiator's poster and turn on one side, the
// target's turn on the far side; they may be in different processes. Bound: the send queue's depth.

#include <mesh/status.h>

#include "src/soft/segment.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace mesh::soft {

inline constexpr std::uint32_t kRingMagic = 0x6d736674;
inline constexpr std::uint32_t kSgesMax = 4;
inline constexpr std::uint32_t kInlineMax = 220;  // inline bytes that a queue pair may ask for
// Four cells of 64 KiB each way. The kernel provides the pages when they are touched.
inline constexpr std::uint32_t kStreamBytes = 4 * 65536;
inline constexpr std::uint32_t kRingSlotsMax = 16384;

struct RingSge {
  std::uint64_t address;
  std::uint32_t bytes;
  std::uint32_t lkey;  // the initiator's; it means nothing to the target
};

struct RingRequest {
  std::uint64_t ready_at_ns;  // when the last byte has arrived at the target; 0: at once
  std::uint64_t remote_address;
  std::uint32_t rkey;
  std::uint32_t bytes;
  std::uint32_t imm;  // as posted
  std::uint32_t psn;
  std::uint8_t opcode;  // ibv_wr_opcode
  std::uint8_t is_inline;
  std::uint8_t sges;
  std::uint8_t reserved[5];
  union {
    RingSge sge[kSgesMax];
    std::byte inline_bytes[224];
  };
};
static_assert(sizeof(RingRequest) == 264);
// Five cache lines. A request without inline bytes touches two of them.
inline constexpr std::size_t kRequestStride = 320;

struct RingResponse {
  std::uint64_t ready_at_ns;
  std::uint32_t psn;
  std::uint32_t status;  // ibv_wc_status for the initiator's completion
};

enum class TargetState : std::uint32_t {
  Unseen,    // the target has not heard of this ring
  Held,      // the target knows the ring, but its queue pair cannot receive yet
  Attached,  // the target pulls
  Stalled,   // the target does not pull for the moment, because of a fault
  Dead,      // the target will never pull again
};

struct RingHeader {
  std::uint32_t magic;
  std::uint32_t slots;  // a power of two
  // Written by the initiator.
  alignas(64) std::atomic<std::uint64_t> tail;      // requests the target may execute
  alignas(64) std::atomic<std::uint64_t> data_in;   // bytes streamed to the target
  alignas(64) std::atomic<std::uint64_t> read_out;  // bytes of READs taken out
  alignas(64) std::atomic<std::uint32_t> closed;    // 1: no byte of a source may be read
  std::atomic<std::uint32_t> rnr_retry;
  // Written by the target.
  alignas(64) std::atomic<std::uint64_t> responded;  // requests answered
  alignas(64) std::atomic<std::uint64_t> data_out;   // streamed bytes taken out
  alignas(64) std::atomic<std::uint64_t> read_in;    // bytes of READs streamed to the initiator
  alignas(64) std::atomic<std::uint32_t> busy;       // 1: reading sources now; pairs with closed
  alignas(64) std::atomic<std::uint32_t> state;      // TargetState
  std::atomic<std::uint32_t> streams;  // 1: sources come through the stream; set before Attached
};

class Ring {
 public:
  static Result<std::shared_ptr<Ring>> create(std::uint32_t slots, Sharing sharing);
  // Maps a ring. Returns Protocol if the memory is no ring, or too short.
  static Result<std::shared_ptr<Ring>> map(UniqueFd fd, std::uint32_t slots);

  RingHeader& header() noexcept { return *header_; }
  RingRequest& request(std::uint64_t number) noexcept {
    return *reinterpret_cast<RingRequest*>(requests_ + (number & mask_) * kRequestStride);
  }
  RingResponse& response(std::uint64_t number) noexcept { return responses_[number & mask_]; }
  std::byte* data_stream() noexcept { return data_stream_; }
  std::byte* read_stream() noexcept { return read_stream_; }
  std::uint32_t slots() const noexcept { return mask_ + 1; }
  Segment& memory() noexcept { return memory_; }

  TargetState state() const noexcept {
    return static_cast<TargetState>(header_->state.load(std::memory_order_seq_cst));
  }
  void set_state(TargetState state) noexcept {
    header_->state.store(static_cast<std::uint32_t>(state), std::memory_order_seq_cst);
  }

  // Ends the reading of sources: afterwards the target reads none any more. Called by the
  // initiator. It waits for a copy that the target is making. A target in another process may be
  // stopped, so that wait is at most kCloseWaitNs; what such a target still reads changes nothing
  // here.
  void close() noexcept;
  bool closed() const noexcept { return header_->closed.load(std::memory_order_seq_cst) != 0; }

 private:
  Ring(Segment memory, std::uint32_t slots, Sharing sharing);
  static std::size_t bytes_for(std::uint32_t slots);
  Segment memory_;
  Sharing sharing_;
  std::uint32_t mask_;
  RingHeader* header_;
  std::byte* requests_;
  RingResponse* responses_;
  std::byte* data_stream_;
  std::byte* read_stream_;
};

inline constexpr std::uint64_t kCloseWaitNs = 200'000'000;

}  // namespace mesh::soft
