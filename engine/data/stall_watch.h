#pragma once
// Notices requests that stay open, and decides when a link's wait is worth a log line. Once a
// second it is told which request of a channel is the oldest open one, so that a message pays
// nothing for it. Pure: it never looks itself. Thread: control mutex. Bound: one OldestRequest a
// channel, one LinkWait a link.

#include "src/base/timeouts.h"

#include <cstdint>
#include <utility>

namespace mesh::engine {

// Every request before `sequence` has ended; it is open itself, or is still to come.
struct OpenRequest {
  std::uint64_t sequence = 0;
  bool open = false;
};

// The request of one channel that was its oldest open one at the last look, and since which look.
class OldestRequest {
 public:
  void see(const OpenRequest& now, std::uint64_t now_ns) noexcept {
    if (now.open && last_.open && now.sequence == last_.sequence) return;
    last_ = now;
    since_ns_ = now_ns;
    late_ = false;
  }
  // Returns true once for each request that was the oldest open one at two looks, or at each
  // further look, too.
  bool becomes_late(std::uint64_t now_ns, bool again = false) noexcept {
    return age_ns(now_ns) >= kRequestLookToNextNs && (!std::exchange(late_, true) || again);
  }
  bool open() const noexcept { return last_.open; }
  std::uint64_t sequence() const noexcept { return last_.sequence; }  // where the next look begins
  // Returns 0 if nothing is open. The age is too short by at most the time between two looks.
  std::uint64_t age_ns(std::uint64_t now_ns) const noexcept {
    return last_.open ? now_ns - since_ns_ : 0;
  }

 private:
  OpenRequest last_;
  std::uint64_t since_ns_ = 0;
  bool late_ = false;
};

// Decides when one link's wait is logged: once when its oldest request has reached the bar, again
// whenever that age has doubled, and once when nothing is above the bar any more. Where the peer
// may just take its time, a wait no longer than an earlier one is not logged again, up to
// kPatienceBars: a job's checkpoints are alike. It becomes a warning only at twice the bar.
class LinkWait {
 public:
  enum class Say : std::uint8_t { Nothing, Waits, GoesOn };
  static constexpr std::uint64_t kPatienceBars = 8;

  struct Look {
    std::uint64_t age_ns = 0;  // of the oldest request of any channel
    bool patient = false;      // it waits for a program, not for the network
  };
  Say look(const Look& look, std::uint64_t bar_ns) noexcept;
  std::uint64_t longest_ns() const noexcept {
    return longest_ns_;
  }  // of the wait whose end was said last
  bool is_warning() const noexcept {
    return is_warning_;
  }  // what was said last deserves a WARN line

 private:
  std::uint64_t next_ns_ = 0;  // age of the next line; 0: nothing was said in this wait
  std::uint64_t longest_ns_ = 0;
  std::uint64_t patience_ns_ = 0;  // of earlier waits
  bool is_warning_ = false;
};

}  // namespace mesh::engine
