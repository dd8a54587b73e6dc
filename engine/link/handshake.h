#pragma once
// Brings a link up: HELLO and WELCOME agree on rails, paths and sizes. WELCOME tells the acceptor's
// queue pairs and ATTACH the connector's, and each side brings its own up before READY. A step that
// the peer leaves unanswered for kHandshakeStepToAnswerNs ends the link. Thread: control mutex; it
// takes the loop's token where it touches queue pairs. Bounds: those of half_open.h.

#include <mesh/config.h>
#include <mesh/policy.h>

#include "engine/control/frames.h"
#include "engine/data/link_memory.h"
#include "engine/link/bring_up.h"
#include "engine/link/long_path.h"
#include "engine/link/path_sets.h"
#include "src/base/socket.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace mesh::engine {

class Link;
struct Path;
struct PathChoice;
enum class LinkState : std::uint8_t;

// Returns true if a peer may ask for these sizes. Others would break our arithmetic, so they are
// refused, not trimmed.
bool is_sane(std::uint32_t qps, std::uint32_t rq_depth, std::uint32_t slots);

// The marks that the packets of a link carry.
struct Marking {
  int traffic_class = 0;  // RoCE
  int service_level = 0;
};
// The job's settings take precedence over the communicator's wish, as in connect.cc of NCCL's
// net_ib. The wish is the traffic class, and its low four bits (all that a packet has) the service
// level.
Marking marking_of(const Settings& settings, int wish);

enum class PathClass : std::uint8_t { Primary, Beside, Standby, Relayed };

class Handshake {
 public:
  explicit Handshake(Link& link) : link_(link) {}

  // ---- Connector.
  void ask(const AskedRails& asked) noexcept { asked_ = asked; }  // the wishes of the first connect
  const AskedRails& asked() const noexcept { return asked_; }
  // Copies what another link has learnt of this peer: key_for() then works before WELCOME.
  void foresee(const Handshake& other);
  bool knows_peer() const noexcept { return !peer_rails_.empty(); }
  // Returns the key of the link that carries connects with these wishes. The peer must be known.
  PathKey key_for(const AskedRails& asked) const;
  PathKey key() const { return key_for(asked_); }
  void set_marking(const Marking& marking) noexcept { marking_ = marking; }
  void greet();                       // the connection is up: sends HELLO
  bool say_hello_again(Errc reason);  // after a loss; returns true if it dials again
  // The handshake has failed, and the listeners that HELLO named know it. Fails the connects to
  // them; connects to other listeners wait for another link. Does nothing if the link is up.
  void fail_named(Errc why);

  // ---- Acceptor.
  void accept(Hello hello, PathChoice choice);  // the link has its connection; sends WELCOME later
  bool names_one_of(std::span<const Id128> listeners) const;

  // ---- Both.
  void tend();
  void brought_up(const BringUp& done);  // the queue pairs are made, or some are at RTS
  void bring_up_starts();                // restarts the step: a wait for a thread is not the peer's
  // Returns when the step that is under way began.
  std::uint64_t began_ns() const;
  const SocketAddress& source() const noexcept { return source_; }
  const std::vector<WireRail>& peer_rails() const noexcept { return peer_rails_; }
  // Acceptor: the addresses at which other hosts may find the peer. Empty for a connector, which
  // has them from the handle.
  const std::vector<SocketAddress>& peer_addresses() const noexcept { return peer_addresses_; }
  const Id128& peer_ticket() const noexcept { return peer_ticket_; }  // zero: there is none
  // Acceptor: the marking that HELLO asks for. Connector: the wish when the link was made.
  const Marking& marking() const noexcept { return marking_; }
  // Connector: describes our queue pairs of a path to the peer, with the window words that the peer
  // writes.
  WirePath offer_path(std::uint32_t index, std::uint32_t psn);

  // ---- Frames of the peer. Each returns false if the link must end.
  bool on(const Welcome& body);
  bool on(const Attach& body);
  bool on(const Ready& body);
  bool on(const Refuse& body);

  // ---- Between sites (handshake_waits.cc).
  const SiteCrossing& crossing() const noexcept { return crossing_; }
  // Allows more bytes in flight than usual on the path if the link is between two sites.
  void set_inflight(Path& path, std::uint64_t round_trip_ns) const;
  // Connector: true while the link is up but its channels wait for one measured round trip.
  bool measuring() const noexcept { return measure_from_ns_ != 0; }

 private:
  void enter(LinkState state);  // begins a step and its time
  struct PathPlan {
    const PathSets& sets;
    const std::vector<WirePath>& relayed;
    const std::string& none;  // why no rails meet
    std::size_t beside = 0;   // the first so many of relayed carry beside the primary paths
  };
  bool build(const TransferPolicy& policy, const PathPlan& plan);
  TransferPolicy policy_towards(const std::string& peer_site) const;
  std::uint32_t site_depth() const;
  void cross_to(const std::string& site, std::uint64_t round_trip_ns);
  void begin_measure();
  bool measure();
  void tend_measure();
  void come_up();
  bool make_window_words();
  BringUp::Order to_make() const;
  void welcome();
  void end_unmade();
  bool fits(const Welcome& body) const;
  std::vector<WireRail> own_rails() const;  // whatever the state of their ports
  std::uint32_t attached_count() const noexcept;
  void distribute_waiting();
  void bring_up(const std::vector<WirePath>& paths, const std::vector<std::uint8_t>& down);
  bool some_path_is_left(const std::vector<std::uint8_t>& down) const;
  std::vector<std::uint8_t> not_up(const BringUp& done) const;
  void attach(const BringUp& done);
  void ready(const BringUp& done);
  const char* awaited() const;
  bool shakes() const noexcept;  // true for a connector, from HELLO to READY
  void give_up(const char* what);
  bool dials_anew(const Refuse& body);
  void dial_anew(std::uint64_t pause_ns);

  Link& link_;
  std::vector<WireRail> peer_rails_;
  Id128 peer_ticket_{};
  std::uint32_t psn_ = 0;  // first packet number of our queue pairs
  SiteCrossing crossing_;
  std::uint64_t hello_at_ns_ = 0;
  std::uint64_t measure_from_ns_ = 0;    // 0: no measurement is under way
  std::vector<std::uint64_t> measured_;  // round trip by path; 0: not yet
  Marking marking_;
  PeerWritable window_words_;           // connector
  std::uint64_t step_deadline_ns_ = 0;  // 0: no step is under way
  SocketAddress source_;                // the peer's address on the connection of HELLO
  std::vector<SocketAddress> peer_addresses_;
  std::vector<Id128> listeners_;      // acceptor: the ones that HELLO named
  std::unique_ptr<Welcome> welcome_;  // acceptor: unsent until the queue pairs are made
  AskedRails asked_;
  std::vector<WirePath> meet_;     // connector: the pairs of rails in WELCOME
  std::uint32_t hello_tries_ = 0;  // dials after the first
  // Connector: until this time it dials anew after a refusal for want of room. 0: none came yet.
  std::uint64_t anew_until_ns_ = 0;
  std::uint64_t dial_at_ns_ = 0;     // of the dial after such a refusal
  std::uint64_t anew_pause_ns_ = 0;  // the last pause, which grows
};

}  // namespace mesh::engine
