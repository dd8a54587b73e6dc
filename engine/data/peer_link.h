#pragma once
// One side of all paths from a connecting context to an accepting context, with their queue pairs.
// Data flows from connector to acceptor, credits and window words back on the same queue pairs.
// Channels of the two contexts share it, so the number of queue pairs does not grow with channels.
// Its parts are its paths, their late queue pairs, its small memory, its channels, and whether
// anything leads to the peer. It does itself what concerns several of them: it ends, loses a path
// and takes one up. Thread: the hot part by the loop's holder; set-up, channels' coming and going,
// and the end by the control mutex and progress lock. Bounds: kPathsMax paths, kChannelsMax
// channels.

#include <mesh/policy.h>
#include <mesh/status.h>

#include "engine/data/channel_list.h"
#include "engine/data/channel_table.h"
#include "engine/data/late_queue_pairs.h"
#include "engine/data/link_memory.h"
#include "engine/data/path_set.h"
#include "engine/data/peer_log.h"
#include "engine/data/progress_loop.h"
#include "engine/message/id128.h"
#include "src/base/check.h"
#include "src/base/log.h"

#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace mesh::engine {

enum class Reach : std::uint8_t {
  Open,  // there are paths, of which one has been up
  Lazy,  // all paths lead over other hosts, and none was ever opened: the first message asks for
         // it
  Unreachable  // no path leads to the peer: channels open and close, and their first message fails
};

// Whether anything leads to the peer of a link. Hosts that no rails join have links all the same,
// because NCCL connects ranks that never send each other anything. Thread: as noted. Bound: one per
// link.
class LinkReach {
 public:
  explicit LinkReach(ProgressLoop& loop) : loop_(loop) {}

  Reach now() const noexcept { return now_.load(std::memory_order_acquire); }  // any thread
  bool unreachable() const noexcept { return now() == Reach::Unreachable; }
  bool lazy() const noexcept { return now() == Reach::Lazy; }
  // The caller has opened the first path (control mutex and progress lock).
  void wake_up() noexcept {
    DCHECK(lazy());
    now_.store(Reach::Open, std::memory_order_release);
  }

  // NCCL's thread, to start a message.
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
  std::string why_;
  bool all_relayed_ = false;
  std::atomic<Reach> now_{Reach::Open};
  std::atomic<bool> wanted_{false};  // relaxed: nothing else is published with it
};

enum class LinkRole : std::uint8_t { Connector, Acceptor };

struct LinkIdentity {
  LinkRole role = LinkRole::Connector;
  Id128 id{};  // of the link, made by the connector
  Id128 peer_context{};
  std::string peer_host;
};

// The engine's services to a channel, off the message path.
class ChannelOwner {
 public:
  virtual Result<Registration*> register_memory(Channel& channel, const MemoryRange& range) = 0;
  virtual void deregister_memory(Channel& channel, Registration& registration) noexcept = 0;
  virtual void close_channel(Channel& channel) noexcept = 0;
  virtual PeerLog& peer_log() noexcept = 0;  // of all links of the engine; any thread

 protected:
  ~ChannelOwner() = default;
};

// Returns the reason for losing a path that carries small packets only.
std::string black_hole_text(const Path& path);

class PeerLink {
 public:
  PeerLink(ProgressLoop& loop, ChannelOwner& owner, const LinkIdentity& identity,
           const TransferPolicy& policy);

  const TransferPolicy& policy() const noexcept { return policy_; }
  ProgressLoop& loop() const noexcept { return loop_; }
  ChannelOwner& owner() const noexcept { return owner_; }
  const LinkIdentity& identity() const noexcept { return identity_; }
  PathSet& paths() noexcept { return paths_; }
  const PathSet& paths() const noexcept { return paths_; }
  ChannelTable& channels() noexcept { return channels_; }
  const ChannelTable& channels() const noexcept { return channels_; }
  LateQueuePairs& late() noexcept { return late_; }
  LinkReach& reach() noexcept { return reach_; }
  const LinkReach& reach() const noexcept { return reach_; }
  LinkMemory& memory() noexcept { return memory_; }

  ChannelList waiting_for_room;  // the loop's: channels that find no room on our paths
  [[gnu::noinline]] void on_error_completion(QueuePair& queue_pair,
                                             const ibv_wc& completion) noexcept;
  void on_post_failed(QueuePair& queue_pair, int error) noexcept;
  [[gnu::noinline]] void on_overrun(std::uint64_t said, std::uint64_t room) noexcept;
  [[gnu::noinline]] void report_truncated(std::uint64_t sent, std::uint64_t room) const noexcept;

  // Holding the progress lock: fails every open request of every channel and wakes the control
  // thread, which sends `cause` to the peer. Only the first call has an effect. A cause that is
  // logged at WARN counts as an error; the caller chooses Detail if it has logged a line itself.
  void fail(Errc why, std::string_view cause, LogLevel level = LogLevel::Warn) noexcept;
  // Returns the cause that fail() got; empty before. Thread: the progress lock.
  const std::string& cause() const noexcept { return cause_; }
  void end(Errc why) noexcept;  // fail() by the control thread, which knows already
  // NCCL is about to hear of an error. Says once of each peer that it has closed its end with
  // requests of ours open, or that no path leads to it; other errors have their line from where
  // they began. Any thread.
  [[gnu::cold]] void tell_end(Errc why) const noexcept;
  Errc failure() const noexcept { return failure_.load(std::memory_order_acquire); }  // any thread

  // ---- Lost paths (peer_link_loss.cc; holding the progress lock).
  // Connector: probes a path whose queue pairs are new and connected. A probe that does not get
  // through takes the path out of use.
  void probe(Path& path) noexcept;
  // From Up to Quarantined: at once nothing more is posted to it.
  void quarantine(Path& path, const std::string& cause) noexcept;
  // From Quarantined to Down, when both sides have stopped; taken: by queue pair, announcements
  // that the peer took. What was lost goes over other paths as soon as there are any. Returns false
  // if the counts cannot be true.
  bool account_lost(Path& path, std::span<const std::uint64_t> taken);
  void leave_out(Path& path, std::string why);  // at bring-up: from Up to Down, it never worked
  // Its late queue pairs carry messages from now on.
  void widen(Path& path) noexcept;
  // The keys in the entries are others from now on, because a card of the acceptor's was replaced.
  // The acceptor writes all live credits again.
  void change_card(std::uint32_t acceptor_rail, std::uint32_t card);
  // From Down to Up. The paths that stood in for it are quarantined.
  void admit(Path& path);

  // ---- The end (control mutex and progress lock): no queue pair can touch memory afterwards.
  void destroy_queue_pairs() noexcept;

 private:
  void reroute();
  std::string what_carries_on() const;
  void fail_for_memory(const Path& path, const char* what) noexcept;

  ProgressLoop& loop_;
  ChannelOwner& owner_;
  const LinkIdentity identity_;
  const TransferPolicy policy_;
  LateQueuePairs late_;
  PathSet paths_;
  LinkMemory memory_;      // released after the queue pairs: see destroy_queue_pairs()
  ChannelTable channels_;  // they end before the paths
  LinkReach reach_;
  std::string cause_;                    // set before failure_
  std::atomic<Errc> failure_{Errc::Ok};  // released in end()
};

}  // namespace mesh::engine
