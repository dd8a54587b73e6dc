#pragma once
// The paths of a link: which are up, which tier of them carries the link, and in what order their
// queue pairs are used. The first paths are primary, and a CTS entry has as many keys; the others
// stand by in tiers. Thread: the hot part by the loop's holder; the rest by the control mutex and
// progress lock, but for what any thread may ask. Bound: kPathsMax paths.

#include <mesh/policy.h>
#include <mesh/status.h>

#include "engine/data/acceptor_cards.h"
#include "engine/data/late_queue_pairs.h"
#include "engine/data/path.h"
#include "engine/data/path_shares.h"
#include "engine/data/queue_pair.h"
#include "engine/data/send_room.h"
#include "src/base/check.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace mesh::engine {

class SendQueuePair;

// Lists the bulk queue pairs of a link's usable paths in the order in which stripes go over them:
// one of each path, then the next of each, as many of each as the path with the fewest has. On an
// acceptor, which sends no stripes, it is empty. The reservation made here covers all of them: each
// has room for one more stripe of one work request. Thread: loop (progress lock). Bound: kPathsMax
// paths of kQpsMax.
class BulkOrder {
 public:
  explicit BulkOrder(LateQueuePairs& late) noexcept : late_(late) {}
  std::uint32_t count() const noexcept { return count_; }
  // Returns how many of each path are in the list.
  std::uint32_t each() const noexcept { return each_; }
  // Returns the last index in a path that a small message may take. The queue pair need not be
  // there yet: try_take_uniform() then wants it.
  std::uint32_t last_for_small() const noexcept { return last_for_small_; }
  bool empty() const noexcept { return count_ == 0; }
  SendQueuePair& at(std::uint32_t position) const noexcept {
    DCHECK(count_ != 0);
    return *order_[position < count_ ? position : position % count_];
  }
  // Returns all of them as one row, from the first-th on: count() of them.
  SendQueuePair* const* from(std::uint32_t first) const noexcept {
    DCHECK(first < count_);
    return &order_[first];
  }
  // Returns the position at which the next message begins.
  std::uint32_t next_first() const noexcept { return cursor_; }
  // Returns where a message of at most count() stripes begins, and moves on behind it.
  std::uint32_t next(std::uint32_t stripes) noexcept {
    DCHECK(stripes <= count_);
    const std::uint32_t first = cursor_;
    DCHECK(first < count_);
    if (stripes == count_) return first;
    const std::uint32_t next = first + stripes;
    cursor_ = next < count_ ? next : next - count_;
    return first;
  }
  // Takes one from the reservation. Returns true if each of them may be given a stripe of a uniform
  // message, or one of them a small message; the caller must then do so. The queue pairs are looked
  // at once for many messages; if there are none, late ones are wanted from then on.
  bool try_take_uniform() noexcept { return reservation_.take() || reserve_uniform(); }
  Reservation& reservation() noexcept { return reservation_; }

  void assign(const std::vector<Path*>& usable);

 private:
  [[gnu::noinline]] bool reserve_uniform() noexcept;

  std::vector<SendQueuePair*> order_;  // all of them, twice, so that from() never wraps
  std::uint32_t count_ = 0, each_ = 0, last_for_small_ = 0;
  std::uint32_t cursor_ = 0;
  Reservation reservation_;
  LateQueuePairs& late_;
};

// An order to PathSet::make().
struct Making {
  const std::atomic<bool>* abandoned = nullptr;  // looked at before each: true ends it
  bool late = false;                             // those of Path::late
};

class PathSet {
 public:
  explicit PathSet(PeerLink& link);  // whose policy and loop are there already

  AcceptorCards cards;  // order() comes next where it changes
  // ---- Hot, holding the progress lock.
  Path& operator[](std::uint32_t index) noexcept {
    DCHECK(index < paths_.size());
    return paths_[index];
  }
  const Path& operator[](std::uint32_t index) const noexcept {
    DCHECK(index < paths_.size());
    return paths_[index];
  }
  std::span<Path> all() noexcept { return paths_; }
  std::span<const Path> all() const noexcept { return paths_; }
  std::uint32_t count() const noexcept { return static_cast<std::uint32_t>(paths_.size()); }
  std::uint32_t primary_count() const noexcept { return primary_count_; }
  // The primary paths, without the one that leads over other hosts beside them.
  std::uint32_t direct_count() const noexcept { return primary_count_ - (has_beside() ? 1 : 0); }
  bool has_beside() const noexcept { return has_beside_; }
  bool is_beside(std::uint32_t index) const noexcept {
    return has_beside_ && index + 1 == primary_count_;
  }
  // The paths that do not come up with the link.
  std::uint32_t standby_count() const noexcept;  // without a cable that is not known yet
  // The tier that carries the link: the best one with a path that is up; if none is up, the tier
  // that did last.
  std::span<const Path> of_tier() const noexcept {
    return all().subspan(first_of_tier_, tier_size_);
  }
  // The set of keys that CTS entries hold now, and the rail of the first of these keys. They change
  // only with what carries the link.
  std::uint32_t key_set() const noexcept { return key_set_; }
  std::uint32_t key_rail() const noexcept { return key_rail_; }
  // Returns true if a better tier than the path's carries the link, or a path over as few hosts.
  bool is_outranked(const Path& path) const noexcept {
    if (stalled() || path.tier == tier_) return false;
    const std::uint32_t least = (*this)[first_of_tier_].hosts_least;
    return path.tier > tier_ || (least != 0 && path.hosts_least == least);
  }
  // The paths of that tier that are up. If none is, nothing is posted and requests wait.
  std::uint32_t usable_count() const noexcept { return static_cast<std::uint32_t>(usable_.size()); }
  bool stalled() const noexcept { return usable_.empty(); }
  // Channels spread over the usable paths, and over those alone that lead directly to the peer if
  // any does; one channel's small messages and credits stay on one queue pair. If no path is
  // usable, returns a queue pair that has no room.
  QueuePair& express(std::uint32_t channel) noexcept;
  BulkOrder& bulk() noexcept { return bulk_; }
  PathShares& shares() noexcept { return shares_; }

  // ---- Any thread.
  bool all_up() const noexcept { return away_.load(std::memory_order_acquire) == 0; }
  // Rails, as bits, over whose paths data has come that no fence has flushed yet.
  std::uint64_t written_rails() const noexcept {
    return written_rails_.load(std::memory_order_acquire);
  }

  // ---- States of paths; holding the progress lock.
  // The only place where the state of one of our paths changes once the link has channels.
  void set_state(Path& path, PathState state) noexcept;
  void order();                            // after the last path, and when one comes or goes
  bool fencing() const noexcept;           // true if a path is lost and not yet fenced
  void call(Path& path);                   // from Standby to Down: it is to be opened
  void let_stand_by(Path& path) noexcept;  // from Down to Standby: it is not wanted any more
  void drain_completions() noexcept;       // all that are there now, before anything is counted
  // Returns, by path, QueuePair::signs_of_peer() of all its queue pairs plus one, or 0 if the path
  // is not up. Asks the peer of each path that is up for another sign.
  std::vector<std::uint64_t> signs_of_peer();

  // ---- Set-up.
  void expect(std::size_t paths);  // before the first; else kPathsMax
  // Adds a primary path; make() comes next. Standby paths come last, without queue pairs.
  Path& add_primary(DeviceContext& device, const PathEnds& ends, std::string name);
  void add_beside(DeviceContext& device, const PathEnds& ends, std::string name);
  void add_standby(DeviceContext& device, const PathEnds& ends, std::string name);
  // Adds a path in a tier of its own. Its rails are named when it is opened; until then it has any
  // device context. It leads over so many hosts at least; 0: over a cable that is not known yet.
  void add_place(DeviceContext& any, std::string name, std::uint32_t hosts_least);
  // Names the rails of such a place, whose path is down and has no verbs queue pair.
  void name_rails(Path& path, DeviceContext& device, const PathEnds& ends, std::string name);
  // Instead of paths: a place for the channels of an unreachable link.
  void add_none(DeviceContext& any);
  // Control mutex: device context indices, each once, of the primary paths and of the tiers of
  // paths that are open or are being opened again. Every registration through this link is on all
  // of them, so its release need not ask on which it is: they change together with what is
  // registered (standby_memory.h).
  const std::vector<std::uint32_t>& rails() const noexcept { return rails_; }
  void add_rails(std::span<const std::uint32_t> rails);  // holding the progress lock, too

  // ---- Queue pairs.
  void provide_queue_pairs(Path& path);  // the objects of all, for make()
  // Makes new queue pairs for it, in RESET, on a bring-up's thread: without the control mutex and
  // the progress lock. Returns PeerClosed if abandoned.
  Status make(Path& path, const Making& making = {});
  void destroy(Path& path) noexcept;  // the queue pairs of a path that is not up
  void destroy_all() noexcept;

 private:
  // Adds a primary path that rests, over other hosts: the last beside direct paths, or the first of
  // a link without any. Its queue pairs are objects without a verbs queue pair.
  Path& add_primary_on_standby(DeviceContext& device, const PathEnds& ends, std::string name);
  Path& place(DeviceContext& device, const PathEnds& ends, std::string name);
  void note_tier(const Path& path) noexcept;
  void number_keys() noexcept;
  void provide(Path& path, std::uint32_t count);
  void insert_rails(std::span<const std::uint32_t> rails);
  void leave_idle_rails() noexcept;
  void note_written_rails() noexcept;

  PeerLink& link_;
  ProgressLoop& loop_;
  const TransferPolicy& policy_;
  std::vector<Path> paths_;  // with room for all, so they never move
  std::vector<Path*> usable_;
  BulkOrder bulk_;
  PathShares shares_;
  std::uint32_t express_count_ = 0, primary_count_ = 0, tier_ = 0;
  std::uint32_t first_of_tier_ = 0, tier_size_ = 0, key_set_ = 0, key_rail_ = 0;
  bool has_beside_ = false, has_carried_ = false;
  // Paths that are neither up nor on standby; the store releases what happened to them.
  std::atomic<std::uint32_t> away_{0};
  std::vector<std::uint32_t> rails_;  // in order
  std::atomic<std::uint64_t> written_rails_{0};
  std::unique_ptr<Path> none_;  // its queue pair is never made
};

}  // namespace mesh::engine
