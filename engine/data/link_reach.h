#pragma once
// Whether anything leads to the peer of a link. Hosts that no rails join have links all the same,
// because NCCL connects ranks that never send each other anything. Thread: as noted. Bound: one per
// link.

#include "src/base/check.h"

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>

namespace mesh::engine {

class ProgressLoop;

enum class Reach : std::uint8_t {
  Open,  // there are paths, of which one has been up
  Lazy,  // all paths lead over other hosts, and none was ever opened: the first message asks for
         // it
  Unreachable  // no path leads to the peer: channels open and close, and their first message fails
};

class LinkReach {
 public:
  LinkReach(ProgressLoop& loop, const std::string& peer_host)
      : loop_(loop), peer_host_(peer_host) {}

  Reach now() const noexcept { return now_.load(std::memory_order_acquire); }  // any thread
  bool unreachable() const noexcept { return now() == Reach::Unreachable; }
  bool lazy() const noexcept { return now() == Reach::Lazy; }
  // The caller has opened the first path (control mutex and progress lock).
  void wake_up() noexcept {
    DCHECK(lazy());
    now_.store(Reach::Open, std::memory_order_release);
  }

  // NCCL's thread, to start a message.
  void tell_unreachable() noexcept;  // says why no path leads to the peer, once
  void want_path() noexcept;
  bool wants_path() const noexcept { return wanted_.load(std::memory_order_relaxed); }

  // Set-up (control mutex and progress lock); constant once there are channels.
  void be_unreachable(std::string why) { begin(Reach::Unreachable, std::move(why)); }
  void be_lazy(std::string why) {
    all_relayed_ = true;
    begin(Reach::Lazy, std::move(why));
  }
  bool all_relayed() const noexcept { return all_relayed_; }
  // Returns why no path leads to the peer, or why all paths lead over other hosts.
  const std::string& why() const noexcept { return why_; }

 private:
  void begin(Reach reach, std::string why) {
    DCHECK(now() == Reach::Open);
    why_ = std::move(why);
    now_.store(reach, std::memory_order_release);
  }

  ProgressLoop& loop_;
  const std::string& peer_host_;
  std::string why_;
  bool all_relayed_ = false;
  std::atomic<Reach> now_{Reach::Open};
  // relaxed, both: nothing else is published with them.
  std::atomic<bool> wanted_{false}, told_{false};
};

}  // namespace mesh::engine
