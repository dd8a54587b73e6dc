#pragma once
// One side of a peer link as the control path sees it: its connection, how far the handshake is,
// which channels wait for it, what is still to be answered. The link proper exists once both sides'
// rails are known. Thread: control mutex. Bounds: kChannelsMax channels, one entry a channel in
// every list.

#include "engine/control/control_plane.h"
#include "engine/control/conversation.h"
#include "engine/control/frames.h"
#include "engine/data/channel.h"
#include "engine/data/peer_link.h"
#include "engine/data/stall_watch.h"
#include "engine/link/bring_up.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace mesh {
class Context;
class Listener;
}  // namespace mesh

namespace mesh::engine {

struct LinkControl;

enum class StageState : std::uint8_t { Waiting, Opening, Ready, Failed };

// One connect() under way.
struct PendingConnect {
  std::uint64_t check = 0;
  Context* context = nullptr;
  LinkControl* link = nullptr;
  Id128 listener{};
  bool named = false;  // HELLO named its listener
  StageState state = StageState::Waiting;
  Channel* channel = nullptr;
  std::uint64_t deadline_ns = 0;  // Opening
  Errc error = Errc::Ok;
};

enum class LinkState : std::uint8_t {
  Dialing,       // connector: no connection yet
  AwaitWelcome,  // connector: HELLO sent
  AwaitAttach,   // acceptor: WELCOME sent
  Connecting,    // both: the queue pairs are being brought up
  AwaitReady,    // connector: ATTACH sent
  Up,
  ByeSent,  // connector: no channels left
  Down,     // queue pairs stopped; waits for NCCL to close what is left
};

inline constexpr std::uint64_t kFirstBackoffNs =
    50'000'000;  // before a path is opened again for the first time
inline constexpr std::uint64_t kStalledBackoffNs =
    400'000'000;  // between tries at most, while no path is up
inline constexpr std::uint64_t kSteadyNs =
    10'000'000'000;  // up for so long: what comes next is another trouble

// What is being done about a path that is not up; begun anew whenever it leaves Up.
struct PathRepair {
  enum class Step : std::uint8_t { Waiting, Asked, Rising, Answered, Probing };
  // The fence.
  bool stopped = false;  // our queue pairs are
  std::uint64_t drain_until_ns = 0;
  bool said = false;  // FENCE is on its way
  bool peer_said = false;
  std::vector<std::uint64_t> peer_taken{};
  // Opening it again.
  Step step = Step::Waiting;
  std::uint64_t at_ns = 0;  // of the next try, or when the peer's answer is late
  std::uint64_t backoff_ns =
      0;  // before the next try; grows, and stays when a path fails again soon
  std::uint32_t psn = 0;
  std::optional<Reopened>
      answer{};                   // connector: what the acceptor has made, while another path rises
  std::optional<Reopen> asked{};  // acceptor: what the connector wants
  Reopen asked_now{};             // acceptor: what is being done
  std::uint64_t lost_at_ns = 0;   // when it left Up
};

// How a lost control connection comes back (resume.cc).
struct Redial {
  std::vector<SocketAddress> addresses;  // of the peer's control port
  std::uint16_t port = 0;
  bool proven =
      false;  // the first of them has carried a connection: whom it refuses has no peer left
  std::uint32_t attempt =
      0;  // connector: connections dialed so far; acceptor: the one it took last

  // While there is none.
  bool under_way = false;
  ConnectionId connection = 0;    // being dialed
  std::uint64_t answered_ns = 0;  // when it came up; it waits for the peer's word since. 0: not yet
  std::uint32_t rounds = 0;
  std::uint64_t lost_ns = 0;
  std::uint64_t next_ns = 0;     // when to dial next
  std::uint64_t backoff_ns = 0;  // and how long after the one that follows
  std::uint64_t give_up_ns = 0;
};

struct LinkControl {
  explicit LinkControl(Context& context_of) : context(context_of) {}

  Context& context;
  LinkIdentity identity;
  LinkState state = LinkState::Dialing;
  ConnectionId connection = 0;  // 0: none; what is said then waits in the conversation
  Conversation conversation;
  Redial redial;
  std::unique_ptr<PeerLink> link;
  std::vector<PathRepair> repairs;  // by path
  bool rewriting = false;           // acceptor: credits are to be written again after a fence
  std::uint64_t admitted_ns = 0, work_when_admitted = 0;  // the last time that a path came back
  std::uint64_t stalled_since_ns = 0;                     // no path is up since then; 0: one is
  std::unique_ptr<BringUp> bring_up;  // of the link, or of one of its paths; a link that is taken
                                      // down meanwhile ends when this does
  LinkPlace counters;                 // connector: the window words
  std::vector<WireRail> peer_rails;
  std::uint32_t hello_tries = 0;  // dials after the first
  std::uint64_t anew_until_ns =
      0;  // connector: a refusal for want of room is no verdict before; 0: there was none
  SocketAddress source;           // the peer's, of the connection that said HELLO
  std::vector<Id128> listeners;   // acceptor: those that HELLO named, up to kHelloListenersMax
  std::uint32_t rail_wanted = 0;  // the device NCCL asked for first
  std::uint32_t psn = 0;
  std::uint64_t deadline_ns = 0;  // ByeSent, and closes not yet complete
  std::uint64_t step_deadline_ns =
      0;  // of the handshake's step under way; of an acceptor that carries no channel, of that
  std::vector<PendingConnect*> waiting;
  std::vector<std::uint32_t> free_indices;  // connector: channel indices used before
  std::vector<std::uint32_t> lives;         // connector: by channel index
  std::vector<Revoke> revokes;              // the peer's, to be answered when the channel is idle
  struct PendingClose {
    Close close;
    std::uint64_t deadline_ns = 0;
  };
  std::vector<std::uint32_t> closing;  // channels that NCCL has closed and the peer has not
  std::vector<PendingClose>
      closes;  // the peer's, to be acted on when everything sent has been seen

  LinkWait wait;                                       // as the watch has reported it
  std::uint64_t degraded_ns = 0, without_path_ns = 0;  // the watch: some path was not up, or none
  bool bye_received = false;                           // while closes were still to be acted on
  bool unsaid = false;  // there was no memory for something that was to be said: the link ends

  bool usable() const noexcept { return state != LinkState::ByeSent && state != LinkState::Down; }
  bool connector() const noexcept { return identity.role == LinkRole::Connector; }
};

}  // namespace mesh::engine
