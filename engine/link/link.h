#pragma once
// One side of a peer link as the control path sees it: its state, its control connection with what
// is said on it, and the parts that do its work. The queue pairs are those of its PeerLink, which
// exists once both sides' rails are known. It sees the engine only through LinkHost. Thread:
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
  Down,     // queue pairs stopped; waits for NCCL to close what is left
};

// What the watch over open requests has seen of a link (request_watch.h).
struct LinkWatched {
  LinkWait wait;                                       // as it was reported
  std::uint64_t degraded_ns = 0, without_path_ns = 0;  // some path was not up, or none
};

class Link {
 public:
  Link(LinkHost& host, Context& context, LinkIdentity identity);
  ~Link();
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
  void set_state(LinkState state) noexcept {
    touch();
    CHECK(state_ != LinkState::Down);  // there is no way back from there
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
  // Nothing of ours depends on the peer any more.
  bool over() const noexcept;
  // As acceptor: it has no channel of which our side has not said CLOSE.
  bool carries_nothing() const noexcept;
  bool has_carried() const noexcept { return peer_link_ && peer_link_->channel_index_bound() != 0; }

  // ---- What is said.
  ConnectionId connection() const noexcept { return connection_; }  // 0: none
  void set_connection(ConnectionId id) noexcept {
    CHECK(connection_ == 0 || id == 0);  // one at a time
    if (id == 0) host_.index().remove(connection_);
    connection_ = id;
    if (id != 0) host_.index().add(id, *this);
  }
  void drop_connection() noexcept;
  // The host at the other end, as others may be told of it; without a ticket it takes no part.
  WireHost peer_as_host() const;
  std::string connection_name() const { return host_.plane().peer_name(connection_); }
  Conversation& conversation() noexcept { return conversation_; }
  // What is said without a connection waits in the conversation. Where there is no memory for a
  // frame, the link ends in the next pass.
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
  bool tend() noexcept;  // true: soon again
  // Something may be due here before the next look at all links.
  void touch() noexcept {
    restless_ = true;
    if (!listed_) list();
  }
  bool restless() const noexcept { return restless_; }
  bool leave_list() noexcept;  // of the restless ones; false: it stays
  // As acceptor: it may carry no channel from now on.
  void note_idle() noexcept;
  bool leave_idle() noexcept;  // likewise

  // ---- Queue pairs that are made, or on their way to RTS: those of the link, or of one path that
  // is opened again. A link that is taken down meanwhile ends when they do.
  const BringUp* bring_up() const noexcept { return bring_up_.get(); }  // null: none are
  void begin_bring_up(BringUp::Order order);
  void start_bring_up();      // a thread is free for it
  Settings settings() const;  // with the communicator's wishes

  // ---- Lines in the log. A peer without a channel here may come again and again, so the lines
  // that it causes come out of a budget.
  bool may_cause_lines() const;
  bool complain(const std::string& text) const;  // false in any case: the peer broke the protocol
  void announce() const;

  // ---- The end.
  void take_down(Errc why) noexcept;               // asks for no memory
  void end(Errc why, const std::string& text);     // with the peer, or with the way to it
  void end_for_memory(const char* what) noexcept;  // what was said could not be heard
  void begin_close();  // with all channels, in good order; nothing is waited for
  bool may_be_forgotten() const noexcept;
  void cut();  // at once, with all channels; waits for the try of a bring-up that is under way

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
  bool tend_parts();
  bool at_rest() const noexcept;
  void list() noexcept;
  void finish_bring_up();
  std::unique_ptr<BringUp> take_bring_up() noexcept;
  void end_queue_pairs() noexcept;  // holding the token

  LinkHost& host_;
  Context& context_;
  bool restless_ = false;
  bool listed_ = false, listed_idle_ = false;  // among its context's restless ones, and idle ones
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
