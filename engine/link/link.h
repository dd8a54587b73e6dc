#pragma once
// One side of a peer link as the control path sees it: its state, its control connection and the
// frames on it, and the parts that do its work. Its queue pairs belong to its PeerLink, which
// exists once both sides' rails are known. A link sees the engine only through LinkHost. Thread:
// control mutex; it takes the loop's token where it touches what belongs to the loop. Bounds: those
// of its parts.

#include "engine/control/control_plane.h"
#include "engine/control/conversation.h"
#include "engine/control/frames.h"
#include "engine/control/relay_frames.h"
#include "engine/data/peer_link.h"
#include "engine/data/stall_watch.h"
#include "engine/link/bring_up.h"
#include "engine/link/farewell.h"
#include "engine/link/handshake.h"
#include "engine/link/link_host.h"
#include "engine/link/openings.h"
#include "engine/link/path_repair.h"
#include "engine/link/redial.h"
#include "src/base/check.h"

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <utility>

namespace mesh::engine {

enum class LinkState : std::uint8_t {
  Dialing,       // connector: no connection yet
  AwaitWelcome,  // connector: HELLO sent
  Making,        // acceptor: HELLO heard, the queue pairs are being made
  AwaitAttach,   // acceptor: WELCOME sent
  Connecting,    // both: the queue pairs are being brought up
  AwaitReady,    // connector: ATTACH sent
  Up,
  ByeSent,  // connector: no channels left
  Down,     // queue pairs stopped; waits for NCCL to close its channels
};

// The state that RequestWatch keeps of a link (request_watch.h).
struct LinkWatched {
  LinkWait wait;                                       // the wait that was reported
  std::uint64_t degraded_ns = 0, without_path_ns = 0;  // with a path not up; with no path up
};

class Link {
 public:
  Link(LinkHost& host, Context& context, LinkIdentity identity);
  ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  // ---- Identity.
  LinkHost& host() const noexcept { return host_; }
  Context& context() const noexcept { return context_; }
  const LinkIdentity& identity() const noexcept { return identity_; }
  bool connector() const noexcept { return identity_.role == LinkRole::Connector; }
  void name_peer(const std::string& host) { identity_.peer_host = host; }
  std::uint64_t path_timeout_ns() const noexcept;

  // ---- State.
  LinkState state() const noexcept { return state_; }
  void set_state(LinkState state) noexcept {
    touch();
    CHECK(state_ != LinkState::Down);  // Down is final
    state_ = state;
  }
  bool usable() const noexcept { return state_ != LinkState::ByeSent && state_ != LinkState::Down; }
  bool has_peer_link() const noexcept { return peer_link_ != nullptr; }
  PeerLink& peer_link() const noexcept {
    CHECK(peer_link_ != nullptr);
    return *peer_link_;
  }
  void set_peer_link(std::unique_ptr<PeerLink> made) noexcept {
    CHECK(peer_link_ == nullptr);  // channels and parts rely on it as long as the link lives
    peer_link_ = std::move(made);
    host_.index().add(*peer_link_, *this);
  }
  Errc failure() const noexcept { return peer_link_ ? peer_link_->failure() : Errc::Ok; }
  // Returns true if nothing of ours depends on the peer any more.
  bool over() const noexcept;
  // Acceptor: returns true if our side has sent CLOSE for every channel.
  bool carries_nothing() const noexcept;
  bool has_carried() const noexcept {
    return peer_link_ && peer_link_->channels().index_bound() != 0;
  }

  // ---- Frames, and the connection that carries them.
  ConnectionId connection() const noexcept { return connection_; }  // 0: none
  void set_connection(ConnectionId id) noexcept {
    CHECK(connection_ == 0 || id == 0);  // one connection at a time
    if (id == 0) host_.index().remove(connection_);
    connection_ = id;
    if (id != 0) host_.index().add(id, *this);
  }
  void drop_connection() noexcept;
  // Describes the peer's host to other hosts. Without a ticket it takes no part in relays.
  WireHost peer_as_host() const;
  std::string connection_name() const { return host_.plane().peer_name(connection_); }
  Conversation& conversation() noexcept { return conversation_; }
  // Sends a frame; without a connection it waits in the conversation. If there is no memory for it,
  // the link ends in the next pass.
  template <typename Body>
  void send(const Body& body) noexcept {
    touch();
    try {
      say(encode(conversation_.next_header(identity_.id), body));
    } catch (const std::exception&) {
      unsaid_ = true;
      host_.tend_soon();
    }
  }

  bool on_frame(const FrameHeader& header, std::span<const std::byte> bytes);
  bool tend() noexcept;  // returns true if it must run again soon
  // Notes that this link may have something due before the next look at all links.
  void touch() noexcept {
    restless_ = true;
    if (!listed_) list();
  }
  bool restless() const noexcept { return restless_; }
  bool leave_list() noexcept;  // leaves the list of restless links; returns false if it must stay
  // Acceptor: the link may carry no channel from now on, and joins the list of idle ones.
  void note_idle() noexcept;
  bool leave_idle() noexcept;  // leaves the list of idle links; returns false if it must stay

  // ---- Bring-up: queue pairs are made or go to RTS, those of the link or of one path that is
  // opened again. A link that is taken down meanwhile ends when its bring-up does.
  const BringUp* bring_up() const noexcept { return bring_up_.get(); }  // null: none is under way
  void begin_bring_up(BringUp::Order order);
  void start_bring_up();      // called when a thread is free for it
  Settings settings() const;  // the job's, with the communicator's wishes

  // ---- Log lines. A peer without a channel here may come again and again, so the lines that it
  // causes have a budget.
  bool may_cause_lines() const;
  bool complain(const std::string& text) const;  // returns false; the peer broke the protocol
  void announce() const;

  // ---- The end.
  void take_down(Errc why) noexcept;               // allocates nothing
  void end(Errc why, const std::string& text);     // the peer or the way to it is lost
  void end_for_memory(const char* what) noexcept;  // for want of memory
  void begin_close();  // closes all channels and the link in good order; waits for nothing
  bool may_be_forgotten() const noexcept;
  void cut();  // ends link and channels at once; waits for the try of a bring-up that is under way

  // ---- Its parts.
  Handshake& handshake() noexcept { return handshake_; }
  PathRepair& repair() noexcept { return repair_; }
  Openings& openings() noexcept { return openings_; }
  Redial& redial() noexcept { return redial_; }
  Farewell& farewell() noexcept { return farewell_; }
  const Handshake& handshake() const noexcept { return handshake_; }
  const Openings& openings() const noexcept { return openings_; }
  const Redial& redial() const noexcept { return redial_; }
  const Farewell& farewell() const noexcept { return farewell_; }

  LinkWatched watched;

 private:
  std::string crossing_text() const;
  void say(Bytes frame);
  bool dispatch(const FrameHeader& header, std::span<const std::byte> bytes);
  bool may_come(const FrameKind& kind) const noexcept;
  template <typename Body>
  bool hand_over(const Body& body);
  bool tend_parts();
  bool at_rest() const noexcept;
  void list() noexcept;
  void finish_bring_up();
  std::unique_ptr<BringUp> take_bring_up() noexcept;
  void end_queue_pairs() noexcept;  // the caller holds the token

  LinkHost& host_;
  Context& context_;
  bool restless_ = false;
  bool listed_ = false, listed_idle_ = false;  // among the restless, the idle links
  LinkState state_ = LinkState::Dialing;
  LinkIdentity identity_;
  ConnectionId connection_ = 0;
  Conversation conversation_;
  std::unique_ptr<PeerLink> peer_link_;
  bool unsaid_ = false;
  std::unique_ptr<BringUp> bring_up_;
  Handshake handshake_{*this};
  PathRepair repair_{*this};
  Openings openings_{*this};
  Redial redial_{*this};
  Farewell farewell_{*this};
};

}  // namespace mesh::engine
