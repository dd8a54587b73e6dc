#pragma once
// Asks other hosts to carry a path: which hosts they know, and the chains of queue pairs that the
// path needs on each. Each host is asked on a connection of its own, which is dialed when it is
// needed and kept while chains depend on it: if it is lost, so are they. A host that owes an answer
// and is silent is asked once more; then its connection is taken for lost. Thread: control mutex.
// Bounds: kRelayHostsMax hosts.

#include "engine/control/control_plane.h"
#include "engine/control/relay_frames.h"
#include "engine/link/link_host.h"
#include "engine/link/relay/routes.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace mesh::engine {

// The marks that tell two hosts apart: their ids, or else their rails.
struct HostFace {
  const std::vector<WireRail>& rails;
  std::uint64_t id = 0;  // 0: it is not known
};
// Returns true for two processes of one host, of which one may have been given fewer rails.
bool is_same_host(const HostFace& one, const HostFace& other);

bool is_among(const std::vector<WireHost>& hosts, const Id128& ticket);
// Adds the host, of up to kRelayHostsMax, unless its ticket is zero or in the list. If it is in the
// list with the same port, it gets the addresses that it lacks: not every host knows all addresses
// of another.
void add_once(std::vector<WireHost>& hosts, const WireHost& host);

class RelayClient;

// The chains of one path's queue pairs over all middle hosts of a route, from the first question
// on. Destroying the object cuts them. Thread: control mutex. Bound: kRouteHostsMax hosts.
class RelayedChains {
 public:
  enum class Step : std::uint8_t { Asked, Made, Joining, Joined, Broken };

  ~RelayedChains();
  RelayedChains(const RelayedChains&) = delete;
  RelayedChains& operator=(const RelayedChains&) = delete;

  Step step() const noexcept { return step_; }
  const std::string& why() const noexcept { return why_; }  // why it is broken
  // The ticket of the host that has refused or is lost; zero if none has.
  const Id128& at_fault() const noexcept { return at_fault_; }
  const RelayRoute& route() const noexcept { return route_; }
  // Valid when made: the first middle host as we see it, and the last one as the peer sees it.
  const WireHop& first() const noexcept { return parts_.front().near; }
  const WireHop& last() const noexcept { return parts_.back().far; }
  void join(const WireHop& own, const WireHop& peer);  // call it when made

 private:
  friend class RelayClient;
  struct Part {  // the chains on one middle host
    ConnectionId connection = 0;
    std::uint64_t number = 0;
    WireHop near{}, far{};
    bool done = false;  // it has answered in this step
  };
  RelayedChains(RelayClient& client, RelayRoute route, std::size_t queue_pairs,
                std::function<void()> changed);
  Part* part_of(ConnectionId connection, std::uint64_t number) noexcept;
  bool uses(ConnectionId connection) const noexcept;
  bool awaits(ConnectionId connection) const noexcept;  // the connection owes an answer
  void finish_part(Part& part, Step next);
  void break_off(const Part& part, std::string why);

  RelayClient& client_;
  const RelayRoute route_;
  const std::size_t queue_pairs_;
  const std::function<void()> changed_;
  std::vector<Part> parts_;
  Step step_ = Step::Asked;
  std::string why_;
  Id128 at_fault_{};
};

class RelayClient {
 public:
  // The hosts that links lead to.
  using Peers = std::function<std::vector<WireHost>()>;
  RelayClient(LinkHost& host, Peers peers) : host_(host), peers_(std::move(peers)) {}

  // Our own ticket, for hosts that may ask us. It is zero until it is set: then no host may ask,
  // and we ask none.
  const Id128& ticket() const noexcept { return ticket_; }
  void set_ticket(const Id128& ticket) noexcept { ticket_ = ticket; }

  // ---- Known hosts.
  // Returns the hosts that links lead to, and those found over our cables that have told their
  // rails, each once.
  std::vector<WireHost> peers() const;
  // Looks for a route to the peer; the wish's hosts are filled in. If none is known, asks all hosts
  // which of their ports are up and which hosts they know; the answers come later. With a route
  // over known cables, asks only the hosts that have failed.
  struct Search {
    Id128 peer{};                 // the peer's ticket
    std::vector<Id128> others{};  // tickets of hosts over which other paths lead: none of them
    bool message_waits = false;   // without a way over known cables neighbours are asked over ours
  };
  struct Found {
    std::optional<RelayRoute> route;
    bool other_way = false;  // a way over more or fewer hosts than the wish's is known
  };
  Found search(RouteWish wish, const Search& search);
  bool knows_others(const Id128& peer) const;  // hosts other than ourselves and that peer
  // Grows when a host that was asked tells of rails or hosts of which it had told nothing.
  std::uint64_t news() const noexcept { return news_; }
  void note_news() noexcept { ++news_; }  // a port of ours has come up

  // ---- Chains.
  struct Order {
    RelayRoute route;
    ChainSizes sizes;
    std::uint8_t traffic_class = 0, service_level = 0;
    std::function<void()> changed;  // called when step() has changed
  };
  std::unique_ptr<RelayedChains> ask(Order order);

  // Closes connections that nothing needs any more.
  void tend();

  // ---- The control plane's events about connections that this client has dialed.
  bool owns(ConnectionId connection) const noexcept;
  void on_dialed(ConnectionId connection);
  bool on_frame(ConnectionId connection, const FrameHeader& header,
                std::span<const std::byte> body);
  void on_lost(ConnectionId connection, const std::string& text);

 private:
  friend class RelayedChains;
  enum class Look : std::uint8_t { No, Yes };  // whether hosts that are asked ask their cables
  struct Talk {                                // the talk with one host
    WireHost host;
    ConnectionId connection = 0;
    bool up = false;                    // the connection is up
    std::vector<WireHost> heard{};      // hosts in the answer so far
    std::vector<WireHost> known{};      // the hosts that it knows
    std::vector<WireRail> rails{};      // its rails as it last told; empty: not yet
    std::uint64_t asked_ns = 0;         // when it was asked for hosts; 0: never
    Look looked = Look::No;             // in that question
    std::uint64_t pause_ns = 0;         // before it is asked for hosts again
    bool asking = false;                // asked for hosts, and no answer yet
    std::uint64_t silent_since_ns = 0;  // since it owes an answer; 0: it owes none
  };
  // Returns peers() and the hosts that these know, except what the host `unheard` tells. A host's
  // own word about its rails counts before the word of others.
  std::vector<WireHost> hosts(const Id128& unheard = {}) const;
  std::vector<WireHost> all_peers() const;
  bool any_found() const;
  void ask_found();
  KnownCables cables(const Id128& peer) const;
  bool have_answered(std::span<const WireHost> hosts) const;
  std::vector<WireRail> rails_now(const Id128& ticket, const std::vector<WireRail>& told) const;
  const Talk* talk_of(const Id128& ticket) const noexcept;
  Talk& talk_with(const WireHost& host);
  void forget_unreachable();
  ConnectionId connection_to(const WireHost& host);
  void hang_up(Talk& talk) noexcept;
  void ask_all(std::span<const WireHost> hosts, Look look = Look::No);
  void ask_peers(Talk& talk, Look look = Look::No);
  bool uses(const Talk& talk) const noexcept;
  bool owes(const Talk& talk) const noexcept;
  void doubt(Talk& talk);
  std::uint64_t silence_ns() const noexcept;
  bool on_peers(Talk& talk, const PeersAre& body);
  bool on_chained(ConnectionId connection, const Chained& body);
  bool on_joined(ConnectionId connection, const Joined& body);
  bool on_cut(ConnectionId connection, const Cut& body);
  RelayedChains* chains_of(ConnectionId connection, std::uint64_t number) noexcept;
  template <typename Body>
  void say(ConnectionId connection, const Body& body) {
    host_.plane().send(connection, encode(FrameHeader{}, body));  // a lost one reports itself
  }

  LinkHost& host_;
  const Peers peers_;
  Id128 ticket_{};
  std::vector<Talk> talks_;
  std::vector<RelayedChains*> chains_;
  std::uint64_t last_number_ = 0;
  std::uint64_t news_ = 0;
};

}  // namespace mesh::engine
