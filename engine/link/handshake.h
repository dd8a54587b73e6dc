#pragma once
// How a link comes up: HELLO and WELCOME agree on rails, paths and sizes, ATTACH and READY tell the
// other side's queue pairs, and each side brings its own up in between. A step that the peer leaves
// unanswered for kHandshakeStepNs ends the link. Thread: control mutex; it takes the loop's token
// where it touches queue pairs. Bounds: those of half_open.h.

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

// What a peer may ask for: values outside would break our arithmetic, so they are refused, not
// trimmed.
bool is_sane(std::uint32_t qps, std::uint32_t rq_depth, std::uint32_t slots);

// What the packets of a link are marked with.
struct Marking {
  int traffic_class = 0;  // RoCE
  int service_level = 0;
};
// The job's settings go before the communicator's wish, as in connect.cc of NCCL's net_ib. That
// wish is the traffic class, and the service level too, of which a packet has four bits.
Marking marking_of(const Settings& settings, int wish);

enum class PathClass : std::uint8_t { Primary, Beside, Standby, Relayed };

class Handshake {
 public:
  explicit Handshake(Link& link) : link_(link) {}

  // ---- Connector.
  void ask(const AskedRails& asked) noexcept { asked_ = asked; }  // of the first connect
  const AskedRails& asked() const noexcept { return asked_; }
  // What another link has learnt of this peer: key_for() then answers before WELCOME.
  void foresee(const Handshake& other);
  bool knows_peer() const noexcept { return !peer_rails_.empty(); }
  // Of the link that carries what asks so; the peer is known.
  PathKey key_for(const AskedRails& asked) const;
  PathKey key() const { return key_for(asked_); }
  void set_marking(const Marking& marking) noexcept { marking_ = marking; }
  void greet();                       // the connection is up: HELLO
  bool say_hello_again(Errc reason);  // the connection is lost; true: it is being dialed again
  // The handshake has failed, which the listeners that HELLO named know too. So their connects
  // fail, and those to others wait for another link. Nothing where the link is up.
  void fail_named(Errc why);

  // ---- Acceptor.
  void accept(Hello hello, PathChoice choice);  // its connection is set; WELCOME follows
  bool names_one_of(std::span<const Id128> listeners) const;

  // ---- Both.
  void tend();
  void brought_up(const BringUp& done);  // the link's queue pairs are made, or some are at RTS
  void bring_up_starts();                // the wait for a thread was not the peer's
  // When the step began that the link is at.
  std::uint64_t began_ns() const;
  const SocketAddress& source() const noexcept { return source_; }
  const std::vector<WireRail>& peer_rails() const noexcept { return peer_rails_; }
  // Acceptor: the addresses at which other hosts may find the peer. A connector has none here: it
  // has them from the handle.
  const std::vector<SocketAddress>& peer_addresses() const noexcept { return peer_addresses_; }
  const Id128& peer_ticket() const noexcept { return peer_ticket_; }  // zero: there is none
  // Acceptor: as HELLO asks. Connector: as it was when the link was made.
  const Marking& marking() const noexcept { return marking_; }
  // Those of our queue pairs that the connector tells the peer, with the words where it counts our
  // announcements.
  WirePath offer_path(std::uint32_t index, std::uint32_t psn);

  // ---- What the peer says. False: the link ends.
  bool on_welcome(const Welcome& body);
  bool on_attach(const Attach& body);
  bool on_ready(const Ready& body);
  bool on_refuse(const Refuse& body);

  // ---- Between sites (handshake_waits.cc).
  const SiteCrossing& crossing() const noexcept { return crossing_; }
  // More than usual, where the path crosses between sites.
  void set_inflight(Path& path, std::uint64_t round_trip_ns) const;
  // Connector: the link is up, and its channels open after one round trip.
  bool measuring() const noexcept { return measure_from_ns_ != 0; }

 private:
  void enter(LinkState state);  // a step, whose time begins
  struct PathPlan {
    const PathSets& sets;
    const std::vector<WirePath>& relayed;
    const std::string& none;  // why nothing meets
    std::size_t beside = 0;   // of the relayed ones, the first
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
  std::vector<WireRail> own_rails() const;  // whatever their ports are
  std::uint32_t attached_count() const noexcept;
  void distribute_waiting();
  void bring_up(const std::vector<WirePath>& paths, const std::vector<std::uint8_t>& down);
  bool some_path_is_left(const std::vector<std::uint8_t>& down) const;
  std::vector<std::uint8_t> not_up(const BringUp& done) const;
  void attach(const BringUp& done);
  void ready(const BringUp& done);
  const char* awaited() const;
  bool shakes() const noexcept;  // a connector's, from HELLO to READY
  void give_up(const char* what);
  bool dials_anew(const Refuse& body);
  void dial_anew(std::uint64_t pause_ns);

  Link& link_;
  std::vector<WireRail> peer_rails_;
  Id128 peer_ticket_{};
  std::uint32_t psn_ = 0;  // of our queue pairs
  SiteCrossing crossing_;
  std::uint64_t hello_at_ns_ = 0;
  std::uint64_t measure_from_ns_ = 0;    // 0: nothing is measured now
  std::vector<std::uint64_t> measured_;  // by path; 0: not yet
  Marking marking_;
  PeerWritable window_words_;           // connector
  std::uint64_t step_deadline_ns_ = 0;  // 0: no step is under way
  SocketAddress source_;                // the peer's, of the connection that carried HELLO
  std::vector<SocketAddress> peer_addresses_;
  std::vector<Id128> listeners_;      // acceptor: those that HELLO named
  std::unique_ptr<Welcome> welcome_;  // acceptor: while the queue pairs are made
  AskedRails asked_;
  std::vector<WirePath> meet_;     // connector: pairs of rails, as the acceptor says
  std::uint32_t hello_tries_ = 0;  // dials after the first
  // Connector: a refusal for want of room is no verdict before this time. 0: there was none.
  std::uint64_t anew_until_ns_ = 0;
  std::uint64_t dial_at_ns_ = 0;     // after such a refusal
  std::uint64_t anew_pause_ns_ = 0;  // the last pause, which grows
};

}  // namespace mesh::engine
