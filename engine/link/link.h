#pragma once
// One side of a peer link as the control path sees it: its state, its control connection with what
// is said on it, and the parts that do its work. The queue pairs are those of its PeerLink, which
// exists once both sides' rails are known. It sees the engine only through LinkHost. Thread:
// control mutex; it takes the loop's token where it touches what belongs to the loop. Bounds: those
// of its parts.

#include "engine/control/control_plane.h"
#include "engine/control/conversation.h"
#include "engine/control/frames.h"
#include "engine/data/peer_link.h"
#include "engine/data/stall_watch.h"
#include "engine/link/bring_up.h"
#include "engine/link/farewell.h"
#include "engine/link/link_host.h"
#include "engine/link/openings.h"
#include "engine/link/redial.h"
#include "src/base/check.h"

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace mesh::engine {

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

// What the watch over open requests has seen of a link (request_watch.h).
struct LinkWatched {
  LinkWait wait;                                       // as it was reported
  std::uint64_t degraded_ns = 0, without_path_ns = 0;  // some path was not up, or none
};

class Link {
 public:
  Link(LinkHost& host, Context& context, LinkIdentity identity)
      : host_(host), context_(context), identity_(std::move(identity)) {}
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  // ---- Who it is.
  LinkHost& host() const noexcept { return host_; }
  Context& context() const noexcept { return context_; }
  const LinkIdentity& identity() const noexcept { return identity_; }
  bool connector() const noexcept { return identity_.role == LinkRole::Connector; }
  void name_peer(const std::string& host) { identity_.peer_host = host; }
  std::uint64_t path_timeout_ns() const noexcept;

  // ---- How it is.
  LinkState state() const noexcept { return state_; }
  void set_state(LinkState state) noexcept { state_ = state; }
  bool usable() const noexcept { return state_ != LinkState::ByeSent && state_ != LinkState::Down; }
  bool has_peer_link() const noexcept { return peer_link_ != nullptr; }
  PeerLink& peer_link() const noexcept {
    CHECK(peer_link_ != nullptr);
    return *peer_link_;
  }
  void set_peer_link(std::unique_ptr<PeerLink> made) noexcept { peer_link_ = std::move(made); }
  Errc failure() const noexcept { return peer_link_ ? peer_link_->failure() : Errc::Ok; }
  // Nothing of ours depends on the peer any more.
  bool over() const noexcept;
  // As acceptor: it has no channel of which our side has not said CLOSE.
  bool carries_nothing() const noexcept;
  bool has_carried() const noexcept { return peer_link_ && peer_link_->channel_index_bound() != 0; }

  // ---- What is said.
  ConnectionId connection() const noexcept { return connection_; }  // 0: none
  void set_connection(ConnectionId id) noexcept { connection_ = id; }
  void drop_connection() noexcept;
  std::string connection_name() const { return host_.plane().peer_name(connection_); }
  Conversation& conversation() noexcept { return conversation_; }
  // What is said without a connection waits in the conversation. Where there is no memory for a
  // frame, the link ends in the next pass.
  template <typename Body>
  void send(const Body& body) noexcept {
    try {
      say(encode(conversation_.next_header(identity_.id), body));
    } catch (const std::exception&) {
      unsaid_ = true;
      host_.tend_soon();
    }
  }
  void acknowledge();

  // ---- Lines in the log. A peer without a channel here may come again and again, so the lines
  // that it causes come out of a budget.
  bool may_cause_lines() const;
  bool complain(const std::string& text) const;  // false in any case: the peer broke the protocol
  void announce() const;

  // ---- The end.
  void take_down(Errc why) noexcept;               // asks for no memory
  void end(Errc why, const std::string& text);     // with the peer, or with the way to it
  void end_for_memory(const char* what) noexcept;  // what was said could not be heard
  bool unsaid() const noexcept { return unsaid_; }
  void end_queue_pairs() noexcept;  // holding the token

  Openings& openings() noexcept { return openings_; }
  Redial& redial() noexcept { return redial_; }
  Farewell& farewell() noexcept { return farewell_; }
  const Openings& openings() const noexcept { return openings_; }
  const Redial& redial() const noexcept { return redial_; }
  const Farewell& farewell() const noexcept { return farewell_; }

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
  std::uint64_t dial_at_ns = 0;     // connector: after a refusal for want of room
  std::uint64_t anew_pause_ns = 0;  // and how long the last pause was
  SocketAddress source;             // the peer's, of the connection that said HELLO
  std::vector<Id128> listeners;     // acceptor: those that HELLO named, up to kHelloListenersMax
  std::uint32_t rail_wanted = 0;    // the device NCCL asked for first
  std::uint32_t psn = 0;
  std::uint64_t step_deadline_ns =
      0;  // of the handshake's step under way; of an acceptor that carries no channel, of that

  LinkWatched watched;

 private:
  void say(Bytes frame);

  LinkHost& host_;
  Context& context_;
  LinkIdentity identity_;
  LinkState state_ = LinkState::Dialing;
  ConnectionId connection_ = 0;
  Conversation conversation_;
  std::unique_ptr<PeerLink> peer_link_;
  bool unsaid_ = false;
  Openings openings_{*this};
  Redial redial_{*this};
  Farewell farewell_{*this};
};

}  // namespace mesh::engine
