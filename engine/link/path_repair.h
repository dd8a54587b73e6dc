#pragma once
// Repairs a path that is not up. Both sides tell each other that they have left it, stop their
// queue pairs of it, and tell that too (FENCE); the acceptor counts the announcements that these
// took. Only after the acceptor's count is anything sent again: nothing of the old queue pairs can
// land in its memory any more, and the counts tell what has landed (path_repair.cc). When both have
// stopped, the connector opens the path again, with pauses that grow: new queue pairs on both
// sides (REOPEN, REOPENED), writes that show whether small and full packets get through, and then
// the path is used again (PATH UP), or the connector leaves the try (another FENCE;
// path_repair_reopen.cc). If no path is up, standby paths are opened in this way too, and fenced
// when a better one is back (path_repair_standby.cc). A path over other hosts needs chains through
// them first (relayed_paths.h). Thread: control mutex; it takes the loop's progress lock where it
// touches paths. Bounds: kPathsMax paths; ten seconds for each answer; NCCL_MESH_PATH_TIMEOUT
// without any path, while requests wait.

#include <mesh/channel.h>
#include <mesh/status.h>

#include "engine/control/frames.h"
#include "engine/data/peer_link.h"
#include "engine/link/relayed_paths.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace mesh::engine {

class Flusher;
struct Flush;

// The flush before a path's fence. A completion does not push the bytes written before it into a
// GPU's memory, and no bytes of a lost path may land there after the peer sends again. Thread:
// control mutex, holding the progress lock. Bound: the device regions of the link's channels.
class PathFlush {
 public:
  PathFlush() = default;
  PathFlush(PathFlush&& other) noexcept { swap(other); }
  PathFlush& operator=(PathFlush&& other) noexcept {
    PathFlush taken(std::move(other));
    swap(taken);
    return *this;
  }
  ~PathFlush();

  bool begun() const noexcept { return flusher_ != nullptr; }
  // Starts to read every device region of the link's channels over the rail. Throws std::bad_alloc.
  void begin(Flusher& flusher, const PeerLink& link, std::uint32_t rail);
  // Returns Ok if all bytes are in memory, WouldBlock if the caller must ask again, or why they
  // cannot be pushed there.
  Errc finish() noexcept;

 private:
  void swap(PathFlush& other) noexcept {
    std::swap(flusher_, other.flusher_);
    open_.swap(other.open_);
  }

  Flusher* flusher_ = nullptr;
  std::vector<Flush*> open_;
};

class BringUp;
class Link;
class StandbyMemory;

class PathRepair {
 public:
  explicit PathRepair(Link& link) : link_(link), relayed_(link) {}

  void begin();  // called when the link has its paths
  bool tend();   // returns true if it must run again soon
  // Takes the paths that could not be brought up with the link out of use until they can be opened.
  void leave_out(const std::vector<std::uint8_t>& down);
  // Connector: one end of the path has changed, so that a try may succeed now: its port is up, or
  // has another address, or its device has memory. Ends the pause before the next try; a try that
  // is under way is followed by another one at once if it fails. The caller holds the progress
  // lock.
  void try_now(std::uint32_t index);
  void tend_lost();
  void pay_fences();    // connector: before the keys of a card that has stopped
  void rewrite_soon();  // acceptor: channels ask to write their credits again
  void cut_chains() noexcept { relayed_.cut_all(); }  // the link is over
  void risen(BringUp& done);  // its queue pairs are made or at RTS, or have failed

  // ---- Frames of the peer. Each returns false if the link must end.
  bool on(const Fence& body);
  bool on(const Reopen& body);
  bool on(const Reopened& body);
  bool on(const PathUp& body);
  bool on(const PortUp& body);

 private:
  // How far the connector is with opening a path again.
  enum class ConnectorStep : std::uint8_t {
    Waiting,        // for its next try
    Chaining,       // relayed path: the middle hosts were asked for queue pairs
    Making,         // our queue pairs are being made
    AwaitReopened,  // REOPEN was sent
    Joining,        // relayed path: REOPENED came, the middle hosts were told their neighbours
    Reopened,       // the peer's queue pairs are known
    Rising,         // our queue pairs connect
    Probing,        // a probe is under way
  };
  // How far the acceptor is with it.
  enum class AcceptorStep : std::uint8_t {
    AwaitReopen,
    Asked,        // REOPEN came; the device has still to destroy the former queue pairs
    Rising,       // our queue pairs are made and connect
    AwaitPathUp,  // REOPENED was sent; the connector probes the path
  };
  // The repair of one path; begun anew whenever the path leaves Up.
  struct Repair {
    // ---- The fence.
    // Our queue pairs are in ERR only when Stopped: then the device has answered. FENCE says so.
    enum class Stop : std::uint8_t { NotAsked, Asked, Stopped } stop = Stop::NotAsked;
    bool left_said = false;  // some FENCE is on its way
    bool said = false;       // the FENCE of queue pairs that have stopped is on its way
    bool owed = false;  // connector: the acceptor's FENCE came first, and ours is still to be sent
    bool peer_left = false;            // some FENCE has come
    bool peer_said = false;            // that of queue pairs that have stopped
    bool gone_first = false;           // acceptor: FENCE waits until the queue pairs are destroyed
    bool told_slow = false;            // a line says that the device takes long to stop or destroy
    std::uint64_t drain_until_ns = 0;  // from Stopped on
    // When an unanswered FENCE has the connection replaced; 0: it has been, or is not said.
    std::uint64_t other_way_at_ns = 0;
    std::vector<std::uint64_t> peer_taken{};
    std::vector<std::uint64_t> own_taken{};  // acceptor: the counts for FENCE
    PathFlush flush{};                       // acceptor: the flush before FENCE
    // ---- Opening the path again.
    std::uint64_t at_ns = 0;  // time of the next try, or when the peer's answer is late
    // The pause before the next try. It grows, and is kept if the path fails again soon.
    std::uint64_t backoff_ns = 0;
    std::uint64_t hurried_ns = 0;  // when the last try that try_now() made began
    std::uint64_t lost_at_ns = 0;  // when the path left Up
    // Connector: the acceptor's answer, kept until the hosts on the way have joined.
    std::optional<Reopened> answer{};
    std::optional<Reopen> asked{};  // acceptor: the newest REOPEN, not yet begun
    Reopen asked_now{};             // acceptor: the REOPEN that is being done
    std::uint32_t psn = 0;
    ConnectorStep connector_step = ConnectorStep::Waiting;   // stays Waiting at an acceptor
    AcceptorStep acceptor_step = AcceptorStep::AwaitReopen;  // stays AwaitReopen at a connector
    bool left = false;     // acceptor: the connector has left the try while it rises
    bool changed = false;  // try_now() was called during a try, or before the path was Down
    bool hurried = false;  // try_now() made the try, so its failure doubles no pause

    bool being_opened() const noexcept {
      return connector_step != ConnectorStep::Waiting || acceptor_step != AcceptorStep::AwaitReopen;
    }
    bool in_bring_up() const noexcept {
      return connector_step == ConnectorStep::Making || connector_step == ConnectorStep::Rising ||
             acceptor_step == AcceptorStep::Rising;
    }
    // Connector: the acceptor knows of the try, and keeps queue pairs for it until it hears more.
    bool is_known() const noexcept { return connector_step >= ConnectorStep::AwaitReopened; }
  };

  // ---- The fence (path_repair.cc).
  bool tend_path(std::uint32_t index);
  bool fence(std::uint32_t index);
  bool say_fence(std::uint32_t index);
  bool pay_fence(std::uint32_t index);
  Fence fence_of(const Path& path, std::uint8_t stopped) const;
  bool settle(Path& path, std::vector<std::uint64_t>* taken);
  bool stop(Path& path);
  void wait_for_device(const Path& path, std::uint64_t since_ns, const char* what);
  void tell_slow(const Path& path, std::uint64_t since_ns, const char* what, const std::string& so);
  std::uint64_t device_bound_ns() const noexcept;
  void await_answer(Repair& repair);
  bool count_taken(Path& path, std::vector<std::uint64_t>* taken);
  bool advance_flush(const Path& path);
  bool await_destruction(const Path& path);
  void note_stall();
  void fail_without_route();
  void fail_told(Errc why, const std::string& text);
  // Called while no path is up. Returns, for each path that does not rest, its last failure or what
  // it waits for.
  std::string causes() const;
  std::string what_is_awaited(std::uint32_t index) const;
  std::string what_holds_up(const Path& path) const;
  void say_left_out(const Path& path) const;
  void note_admitted();

  // ---- Opening a path again (path_repair_reopen.cc).
  bool reopen(std::uint32_t index);
  void hurry(Repair& repair) const;
  bool begin_try(std::uint32_t index);
  void ask(std::uint32_t index);
  void give_up_try(std::uint32_t index, const std::string& why);
  void say_left(std::uint32_t index, const std::string& why);
  bool hear_left(const Fence& body);
  void end_left(std::uint32_t index);
  bool take_apart(std::uint32_t index);
  bool answer(std::uint32_t index);
  void refuse(const Reopen& asked, const std::string& why);
  bool clear_for(std::uint32_t index, std::uint32_t epoch, std::string* why);
  void make(std::uint32_t index);
  void raise(std::uint32_t index, const WirePath& peer, std::vector<WireHop> via = {});
  void answer_risen(std::uint32_t index, const BringUp& done, const std::string& why);
  bool probe(std::uint32_t index);
  void note_cable(const Path& path);
  void admit(std::uint32_t index);
  void tell_admitted(const Path& path, std::uint64_t away_ns);

  // ---- Standby paths, and paths over other hosts (path_repair_standby.cc).
  bool begin_chains(std::uint32_t index);
  void end_first_pause(std::uint32_t index);
  bool tend_chains(std::uint32_t index);
  bool peer_may_use_one() const noexcept;
  void call_standby(std::uint64_t now_ns);
  void call_beside();
  void leave_beside(std::uint32_t index, const std::string& why);
  bool is_unasked_beside(std::uint32_t index) const;
  bool let_beside_stand_by(std::uint32_t index);
  bool let_stand_by(std::uint32_t index);
  void leave_better_ones(std::uint32_t index);
  std::unique_ptr<StandbyMemory> memory_for(const Path& path) const;
  bool lacks_memory(const BringUp& done) const;
  void register_the_rest(BringUp& done);
  bool take_memory(const BringUp& done, std::string* why);

  Link& link_;
  std::vector<Repair> repairs_;  // by path
  RelayedPaths relayed_;
  bool rewriting_ = false;  // acceptor: credits are to be written again after a fence
  std::uint64_t admitted_ns_ = 0, work_when_admitted_ = 0;  // when a path last came back
  std::uint64_t stalled_since_ns_ = 0;                      // since when no path is up; 0: one is
  std::uint64_t looked_ns_ = 0;  // when a path that has come back was looked at last
};

}  // namespace mesh::engine
