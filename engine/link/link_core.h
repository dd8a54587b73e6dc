#pragma once
// The state that the parts of a link share: the peer and the terms with it, the state, the control
// connection and the frames on it, the queue pairs' PeerLink, and the connects that wait. Link is
// this with its parts. Thread: control mutex; it takes the loop's progress lock where it touches
// what belongs to the loop. Bounds: kChannelsMax indices, and one waiting connect for each that
// NCCL has begun.

#include "engine/control/control_plane.h"
#include "engine/control/conversation.h"
#include "engine/control/frames.h"
#include "engine/data/channel.h"
#include "engine/data/link_memory.h"
#include "engine/data/peer_link.h"
#include "engine/link/bring_up.h"
#include "engine/link/link_host.h"
#include "engine/link/link_setup.h"
#include "src/base/check.h"
#include "src/topo/pairing.h"

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace mesh {
class Context;
}

namespace mesh::engine {

class Link;

enum class LinkState : std::uint8_t {
  Dialing,       // connector: no connection yet
  AwaitWelcome,  // connector: HELLO sent
  Proving,       // acceptor: HELLO heard, datagrams tell which ports are on one wire
  Making,        // acceptor: the queue pairs are being made
  AwaitAttach,   // acceptor: WELCOME sent
  Connecting,    // both: the queue pairs are being brought up
  AwaitReady,    // connector: ATTACH sent
  Up,
  ByeSent,  // connector: no channels left
  Down,     // queue pairs stopped; waits for NCCL to close its channels
};

// The marks that the packets of a link carry.
struct Marking {
  int traffic_class = 0;  // RoCE
  int service_level = 0;
};

// The terms of a link, as HELLO and WELCOME have told and settled them.
struct LinkTerms {
  AskedRails asked;  // connector: the wishes of the first connect
  // Acceptor: the marking that HELLO asks for. Connector: the wish when the link was made.
  Marking marking;
  SiteCrossing crossing;
  std::vector<WireRail> peer_rails;  // empty until the peer is known
  Id128 peer_ticket{};               // zero: there is none
  std::uint64_t peer_host_id = 0;    // 0: it has told none
  topo::CableProof cables;           // what datagrams have told; our rails are the local ones
  // Connector: pairs over which the peer's datagrams come in, and ours do not arrive.
  std::vector<topo::WirePair> one_way;
  // Acceptor: where other hosts may find the peer. A connector has that from the handle.
  std::vector<SocketAddress> peer_addresses;
  PeerWritable window_words;  // connector
};

// The addresses and the number of the peer's control port.
struct PeerPort {
  std::vector<SocketAddress> addresses;
  std::uint16_t port = 0;
  bool proven = false;  // the first address has carried a connection; from then its refusal counts
};

enum class StageState : std::uint8_t { Waiting, Opening, Ready, Failed };

// One connect() under way.
struct PendingConnect {
  std::uint64_t check = 0;
  Context* context = nullptr;
  Link* link = nullptr;
  Id128 listener{};
  AskedRails asked{};
  bool named = false;  // HELLO named its listener
  StageState state = StageState::Waiting;
  Channel* channel = nullptr;
  std::uint64_t deadline_ns = 0;  // while Opening
  Errc error = Errc::Ok;
};

// The indices of a link's channels. reserve() makes the room that closing a channel needs, because
// it must not allocate then.
struct ChannelIndices {
  std::vector<std::uint32_t> free;     // connector: indices that were used before
  std::vector<std::uint32_t> lives;    // connector: how often each index was used
  std::vector<std::uint32_t> closing;  // channels that NCCL has closed, but not the peer

  void reserve(std::size_t channels) {
    free.reserve(channels);
    closing.reserve(channels);
  }
};

class LinkCore {
 public:
  LinkCore(const LinkCore&) = delete;
  LinkCore& operator=(const LinkCore&) = delete;

  // ---- Identity.
  LinkHost& host() const noexcept { return host_; }
  Context& context() const noexcept { return context_; }
  const LinkIdentity& identity() const noexcept { return identity_; }
  bool connector() const noexcept { return identity_.role == LinkRole::Connector; }
  void name_peer(const std::string& host) { identity_.peer_host = host; }
  std::uint64_t path_timeout_ns() const noexcept;
  Settings settings() const;  // the job's, with the communicator's wishes

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
  Errc failure() const noexcept { return peer_link_ ? peer_link_->failure() : Errc::Ok; }
  bool over() const noexcept;  // true if nothing of ours depends on the peer any more
  // Acceptor: returns true if our side has sent CLOSE for every channel.
  bool carries_nothing() const noexcept;
  bool has_carried() const noexcept {
    return peer_link_ && peer_link_->channels().index_bound() != 0;
  }
  // ---- Bring-ups: that of the link as a whole, and then one for each path at most.
  const BringUp* bring_up() const noexcept;       // of the whole link; null: none is under way
  bool rises(std::uint32_t path) const noexcept;  // the path has one

  // ---- Frames, and the connection that carries them.
  ConnectionId connection() const noexcept { return connection_; }  // 0: none
  void set_connection(ConnectionId id) noexcept {
    CHECK(connection_ == 0 || id == 0);  // one connection at a time
    index_connection(std::exchange(connection_, id), id);
  }
  void index_connection(ConnectionId was, ConnectionId now) noexcept;  // so that frames find it
  void drop_connection() noexcept;
  void acknowledge() noexcept;  // all that the peer has said, in a frame of its own
  void dial_all();              // for a link that has had no connection yet
  void note_address();          // moves the address that carries the connection to the front
  std::string connection_name() const { return host_.plane().peer_name(connection_); }
  Conversation& conversation() noexcept { return conversation_; }
  // Sends a frame, or keeps it until there is a connection. Without memory the link ends soon.
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

  // ---- Lists of the context.
  // Notes that this link may have something due before the next look at all links.
  void touch() noexcept {
    restless_ = true;
    if (!listed_) list();
  }
  // Acceptor: the link may carry no channel from now on, and joins the list of idle ones.
  void note_idle() noexcept;

  // ---- Log lines. They have a budget, because a peer without a channel may come again and again.
  bool may_cause_lines() const;
  bool complain(const std::string& text) const;  // returns false; the peer broke the protocol

  // Fails a connect that has no channel yet.
  void fail_connect(PendingConnect& stage, Errc why) noexcept;

  LinkTerms terms;
  PeerPort port;
  std::vector<PendingConnect*> waiting;  // connects, until their channels are open or have failed
  ChannelIndices indices;

 protected:
  LinkCore(LinkHost& host, Context& context, LinkIdentity identity);
  ~LinkCore();
  Link& whole() noexcept;
  void list() noexcept;
  void say(Bytes frame);

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
  std::vector<std::unique_ptr<BringUp>> bring_ups_;
};

}  // namespace mesh::engine
