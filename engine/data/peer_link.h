#pragma once
// One side of all paths from a connecting context to an accepting context, with their queue pairs.
// Data flows from connector to acceptor, credits and window words back on the same queue pairs.
// Channels of the two contexts share it, so the number of queue pairs does not grow with channels.
// Thread: the hot part by the loop's holder; set-up, channels' coming and going, and the end by the
// control mutex and token. Bounds: kPathsMax paths, kChannelsMax channels.

#include <mesh/metrics.h>
#include <mesh/policy.h>
#include <mesh/status.h>

#include "engine/data/bulk_order.h"
#include "engine/data/lane.h"
#include "engine/data/link_memory.h"
#include "engine/data/path.h"
#include "engine/data/path_shares.h"
#include "engine/data/progress_loop.h"
#include "engine/data/queue_pair.h"
#include "engine/data/recv_channel.h"
#include "engine/data/send_channel.h"
#include "engine/message/id128.h"
#include "src/base/check.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace mesh::engine {

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

 protected:
  ~ChannelOwner() = default;
};

// Returns the reason for losing a path that carries small packets only.
std::string black_hole_text(const Path& path);

class PeerLink {
 public:
  PeerLink(ProgressLoop& loop, ChannelOwner& owner, const LinkIdentity& identity,
           const TransferPolicy& policy);

  // ---- Hot, holding the token.
  const TransferPolicy& policy() const noexcept { return policy_; }
  ProgressLoop& loop() const noexcept { return loop_; }
  Path& path(std::uint32_t i) noexcept {
    DCHECK(i < paths_.size());
    return *paths_[i];
  }
  const Path& path(std::uint32_t i) const noexcept {
    DCHECK(i < paths_.size());
    return *paths_[i];
  }
  ChannelList waiting_for_room;  // the loop's: channels that find no room on our paths
  std::uint32_t path_count() const noexcept { return static_cast<std::uint32_t>(paths_.size()); }
  // The first paths are primary, and a credit row has as many keys.
  std::uint32_t primary_count() const noexcept { return primary_count_; }
  // The primary paths, without the one that leads over other hosts beside them.
  std::uint32_t direct_count() const noexcept { return primary_count_ - (beside() ? 1 : 0); }
  bool beside() const noexcept { return beside_; }
  bool is_beside(std::uint32_t index) const noexcept {
    return beside_ && index + 1 == primary_count_;
  }
  // The paths that do not come up with the link.
  std::uint32_t standby_count() const noexcept { return path_count() - direct_count(); }
  // The best tier with a path that is up carries the link; if none is up, the tier that did last.
  std::uint32_t tier() const noexcept { return tier_; }
  const Path& first_of_tier() const noexcept { return path(tier_ * primary_count_); }
  // The paths of that tier that are up. If none is, nothing is posted and requests wait.
  std::uint32_t usable_count() const noexcept { return usable_count_; }
  bool stalled() const noexcept { return usable_count_ == 0; }
  // Channels spread over the usable paths, and over those alone that lead directly to the peer if
  // any does; one channel's small messages and credits stay on one queue pair. If no path is
  // usable, returns a queue pair that has no room.
  QueuePair& express(std::uint32_t channel) noexcept {
    const auto& paths = stalled() ? all_ : usable_;
    DCHECK(!paths.empty());
    // The primary paths have queue pairs whatever their state is.
    const std::uint32_t count = stalled() ? std::max(primary_count_, 1u) : express_count_;
    DCHECK(count != 0 && count <= paths.size());
    return *paths[channel % count]->queue_pairs[0];
  }
  // Returns where its completions are found; empty if it has no verbs queue pair.
  ProgressLoop::Source express_source(std::uint32_t channel) noexcept;
  BulkOrder& bulk() noexcept { return bulk_; }
  PathShares& shares() noexcept { return shares_; }
  // imm and bytes: 32 bits each. Returns as RecvChannel::on_message() does. (peer_link_datapath.h)
  Request* on_announcement(std::uint64_t imm, std::uint64_t bytes,
                           Behind behind = Behind::Nothing) noexcept;
  [[gnu::noinline]] void on_error_completion(QueuePair& queue_pair,
                                             const ibv_wc& completion) noexcept;
  void on_post_failed(QueuePair& queue_pair, int error) noexcept;
  bool has_open_requests() const noexcept;
  bool every_channel_ended() const noexcept;  // any thread under the control mutex, or the token
  [[gnu::noinline]] void on_overrun(std::uint64_t said, std::uint64_t room) noexcept;
  [[gnu::noinline]] void report_truncated(std::uint64_t sent, std::uint64_t room) const noexcept;

  // Holding the token: every open request of every channel fails; the control thread is told. Only
  // the first call does it; text is the WARN line, empty for an end that is no error.
  void fail(Errc why, const std::string& text) noexcept;
  void end(Errc why) noexcept;  // fail() by the control thread, which knows already
  Errc failure() const noexcept { return failure_.load(std::memory_order_acquire); }  // any thread

  bool every_path_is_up() const noexcept {
    return paths_away_.load(std::memory_order_acquire) == 0;
  }  // any thread

  // Any thread: rails, as bits, over whose paths data has come that no fence has flushed yet.
  std::uint64_t written_rails() const noexcept {
    return written_rails_.load(std::memory_order_acquire);
  }

  bool fencing() const noexcept;  // holding the token; true if a path is lost and not yet fenced

  // ---- Lost paths (peer_link_loss.cc; holding the token).
  // Connector: probes a path whose queue pairs are new and connected. A probe that does not get
  // through takes the path out of use.
  void probe(Path& path) noexcept;
  void quarantine(
      Path& path,
      const std::string& cause) noexcept;  // from Up: at once nothing more is posted to it
  void stop_path(Path& path) noexcept;     // its queue pairs to ERR; synchronous
  // From Quarantined to Down, when both sides have stopped; taken: by queue pair, announcements
  // that the peer took. What was lost goes over other paths as soon as there are any. Returns false
  // if the counts cannot be true.
  bool account_lost(Path& path, std::span<const std::uint64_t> taken);
  // Returns true if a better tier than the path's carries the link.
  bool stands_back(const Path& path) const noexcept { return !stalled() && path.tier > tier_; }
  void call(Path& path);                 // from Resting to Down: it is to be opened
  void let_rest(Path& path) noexcept;    // from Down to Resting: it is not wanted any more
  void provide_queue_pairs(Path& path);  // the objects, for make_path()

  void drain_completions() noexcept;  // all that are there now, before anything is counted
  bool rewrite_credits() noexcept;    // after account_lost(); false: queues were full, call again
  void destroy_path(Path& path) noexcept;  // its queue pairs; the path is not up
  // Makes new queue pairs for it, in RESET, on a bring-up's thread: without the control mutex and
  // the token. Returns PeerClosed if *abandoned is true, which is looked at before each.
  Status make_path(Path& path, const std::atomic<bool>* abandoned = nullptr);
  void leave_out(Path& path, std::string why);  // at bring-up: from Up to Down, it never worked
  // From Down to Up. The paths that stood in for it are quarantined.
  void admit(Path& path);

  // ---- A dormant link: no rails meet. Its channels open and close, and carry nothing.
  // Called during set-up, instead of adding paths. why: for the line that a first message causes.
  void be_dormant(Lane& any, std::string why);
  bool dormant() const noexcept { return nowhere_ != nullptr; }
  const std::string& why_dormant() const noexcept { return why_dormant_; }
  void tell_dormant() noexcept;  // NCCL's thread, to start a message: says why not, once

  // ---- A sleeping link: all its paths lead over other hosts, and none has been opened yet. Its
  // channels take nothing until one is up, which the first message asks for.
  bool asleep() const noexcept { return asleep_.load(std::memory_order_acquire); }  // any thread
  void want_path() noexcept;  // NCCL's thread, to start a message
  bool wants_path() const noexcept { return wanted_.load(std::memory_order_relaxed); }
  bool all_relayed() const noexcept { return all_relayed_; }  // constant once there are channels

  // ---- Set-up (control mutex and token).
  // Adds the first path of a link whose paths are all relayed; the others are added as standby.
  void add_sleeping(Lane& lane, const PathEnds& ends, std::string name, std::string why);
  // Adds a primary path; make_path() comes next. Standby paths come last, without queue pairs.
  Path& add_path(Lane& lane, const PathEnds& ends, std::string name);
  // Adds the last primary path, over other hosts: it is opened once the link has carried much.
  void add_beside(Lane& lane, const PathEnds& ends, std::string name);
  void add_standby(Lane& lane, const PathEnds& ends, std::string name);
  // Sets the speed of our port, which may have been down until now; 0: the port does not say.
  void set_port_speed(Path& path, std::uint32_t own_mbps) noexcept;
  void order_paths();  // after the last path, and when one comes or goes
  SendChannel* add_send_channel(std::uint32_t index, std::uint32_t life, std::byte* credits);
  RecvChannel* add_recv_channel(std::uint32_t index, std::uint32_t life, Record* records);
  Channel* channel(std::uint32_t index) const noexcept {
    return index < channels_.size() ? channels_[index].get() : nullptr;
  }
  void remove_channel(std::uint32_t index) noexcept;
  std::uint32_t channel_count() const noexcept { return channel_count_; }
  std::uint32_t channel_index_bound() const noexcept {
    return static_cast<std::uint32_t>(channels_.size());
  }
  // Control mutex: lane indices, each once, of the paths that have been open. Every registration
  // through this link is on all of them, so its release need not ask on which it is: they only
  // grow, together with what is registered (standby_memory.h).
  const std::vector<std::uint32_t>& rails() const noexcept { return rails_; }
  void add_rails(std::span<const std::uint32_t> rails);

  // ---- The end (control mutex and token): no queue pair can touch memory afterwards.
  void stop_queue_pairs(const Path* but = nullptr) noexcept;  // to ERR; synchronous
  void destroy_queue_pairs() noexcept;

  ChannelOwner& owner() const noexcept { return owner_; }
  const LinkIdentity& identity() const noexcept { return identity_; }
  LinkMemory& memory() noexcept { return memory_; }
  const EndedChannels& ended() const noexcept { return ended_; }

 private:
  [[gnu::noinline]] void on_rare_announcement(Request& slot, std::uint64_t imm) noexcept;
  Path& place_path(Lane& lane, const PathEnds& ends, std::string name);
  void reroute();
  void note_written_rails() noexcept;
  std::string what_carries_on() const;
  void place_channel(std::uint32_t index, std::unique_ptr<Channel> channel);
  void place_slots(std::uint32_t index, RecvChannel* receiver) noexcept;
  void make_room_for(std::uint32_t index);
  void fail_for_memory(const Path& path, const char* what) noexcept;
  void wake_up() noexcept;

  ProgressLoop& loop_;
  ChannelOwner& owner_;
  LinkIdentity identity_;
  const TransferPolicy policy_;
  std::vector<std::unique_ptr<Path>> paths_;
  std::vector<Path*> all_, usable_;
  BulkOrder bulk_;
  PathShares shares_;
  std::uint32_t usable_count_ = 0, express_count_ = 0, primary_count_ = 0, tier_ = 0;
  bool beside_ = false;
  LinkMemory memory_;  // released after the queue pairs: see destroy_queue_pairs()
  std::vector<std::unique_ptr<Channel>> channels_;  // by index
  std::vector<RecvChannel*> receivers_;             // by index, null where there is none
  // Finds an announcement's slot by the low bits of its channel: the table's size is a power of
  // two, and what a slot expects holds all bits of its channel. An entry without a receiver has a
  // slot that expects nothing.
  struct Slots {
    Request* first = nullptr;
    std::uint64_t mask = 0;
  };
  Request nobodys_;
  std::vector<Slots> slots_{1, Slots{.first = &nobodys_, .mask = 0}};
  std::uint64_t slots_mask_ = 0;
  std::uint32_t channel_count_ = 0;
  EndedChannels ended_;
  std::atomic<Errc> failure_{Errc::Ok};  // released in fail()
  // Paths that are neither up nor given up; the store releases what happened to them.
  std::atomic<std::uint32_t> paths_away_{0};
  std::vector<std::uint32_t> rails_;  // in order
  std::atomic<std::uint64_t> written_rails_{0};
  // Dormant link: the place of its channels' queue pair, which is never made.
  std::unique_ptr<Path> nowhere_;
  std::string why_dormant_;  // or why all paths are relayed; constant once there are channels
  bool all_relayed_ = false;
  std::atomic<bool> asleep_{false}, wanted_{false};
  std::atomic<bool> dormant_told_{false};
};

}  // namespace mesh::engine
