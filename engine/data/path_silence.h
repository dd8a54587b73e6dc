#pragma once
// Notices a path whose completions stop while some are owed, which neither a device nor a port
// reports. Pure: it is told what each look has shown. Thread: control mutex. Bound: one a path.

#include "src/base/timeouts.h"

#include <algorithm>
#include <cstdint>

namespace mesh::engine {

// The beginning of the cause that is logged for such a path.
inline constexpr const char* kSilentCause = "its completions stopped";

// A path as one look has found it, after its completion queues were drained.
struct PathLook {
  bool owes = false;            // a signaled work request is posted and has not completed
  std::uint64_t completed = 0;  // the number of work requests that have completed
};

class PathSilence {
 public:
  // elapsed_ns: since the last look. A longer time than kSilenceLookCountsMaxNs counts as that:
  // this process stood still, and a device has shown nothing meanwhile that it could have seen.
  void see(const PathLook& look, std::uint64_t elapsed_ns) noexcept {
    const bool moved = look.completed != last_.completed;
    const std::uint64_t counted_ns = std::min(elapsed_ns, kSilenceLookCountsMaxNs);
    still_ns_ = moved ? 0 : still_ns_ + counted_ns;
    silent_ns_ = moved || !look.owes || !last_.owes ? 0 : silent_ns_ + counted_ns;
    last_ = look;
  }
  // Returns for how long completions have been owed and none has come; 0: for less than a look.
  std::uint64_t silent_ns() const noexcept { return silent_ns_; }
  // Returns true if a completion has come within this time.
  bool moved_within(std::uint64_t ns) const noexcept { return still_ns_ < ns; }
  bool owes() const noexcept { return last_.owes; }
  // Returns true if nothing has completed since the last look.
  bool still(const PathLook& now) const noexcept {
    return now.owes && now.completed == last_.completed;
  }

 private:
  PathLook last_;
  std::uint64_t silent_ns_ = 0;
  std::uint64_t still_ns_ = UINT64_MAX / 2;  // since the last completion; it may never have had one
};

// The times that decide how long a path may be silent.
struct SilenceTerms {
  std::uint64_t ack_ns = 0;           // its acknowledge timer with all retries; UINT64_MAX: none
  std::uint64_t carry_ns = 0;         // what is under way on its port takes so long at its speed
  std::uint64_t path_timeout_ns = 0;  // NCCL_MESH_PATH_TIMEOUT
  bool acknowledges_alone = true;     // false: the peer's device stands still with its process
};

// Whether another path to the peer has completed something since the silence began.
enum class Others : std::uint8_t { Silent, Move };

// Returns how long a path may be silent before it is lost. A device that works reports its own
// retries earlier. If nothing else moves either, it may be the network that stands still, or a peer
// whose device cannot acknowledge alone, which is waited for without a limit.
constexpr std::uint64_t silence_bound_ns(const SilenceTerms& terms, Others others) noexcept {
  if (others == Others::Silent && !terms.acknowledges_alone) return UINT64_MAX;
  const std::uint64_t least_ns =
      (others == Others::Move ? kSilenceToLossNs : kSilenceOfAllToLossNs) + 2 * terms.carry_ns;
  return std::min(std::max(least_ns, terms.ack_ns), terms.path_timeout_ns / 4 * 3);
}

// Returns the time in which a device gives up a work request that is not acknowledged. `timer` and
// `retries` are as in NCCL_IB_TIMEOUT and NCCL_IB_RETRY_CNT; a timer of 0 never runs out.
constexpr std::uint64_t ack_bound_ns(int timer, int retries) noexcept {
  if (timer <= 0) return UINT64_MAX;
  return (kAckTimerUnitNs << timer) * static_cast<std::uint64_t>(retries + 1);
}

}  // namespace mesh::engine
