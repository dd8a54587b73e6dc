#pragma once
// Brings a link up: HELLO and WELCOME agree on rails, paths and sizes. WELCOME tells the acceptor's
// queue pairs and ATTACH the connector's, and each side brings its own up before READY. A step that
// the peer leaves unanswered for kHandshakeStepToAnswerNs ends the link. Thread: control mutex; it
// takes the loop's progress lock where it touches queue pairs. Bounds: those of half_open.h.

#include <mesh/config.h>
#include <mesh/policy.h>

#include "engine/control/frames.h"
#include "engine/link/cable_proofs.h"
#include "engine/link/link_core.h"
#include "engine/link/path_sets.h"
#include "src/base/socket.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace mesh::engine {

struct PathChoice;

// Returns true if a peer may ask for these sizes. Others would break our arithmetic, so they are
// refused, not trimmed.
bool is_sane(std::uint32_t qps, std::uint32_t rq_depth, std::uint32_t slots);

// The job's settings take precedence over the communicator's wish, as in connect.cc of NCCL's
// net_ib. The wish is the traffic class, and its low four bits (all that a packet has) the service
// level.
Marking marking_of(const Settings& settings, int wish);

enum class PathClass : std::uint8_t { Primary, Beside, Standby };

// The wait of a connector that was refused because the acceptor had no room. It goes on from the
// link that was refused to the one that dials next.
struct Redialing {
  std::uint64_t until_ns = 0;  // until this time it dials anew. 0: no refusal came yet
  std::uint64_t at_ns = 0;     // of the next dial
  std::uint64_t pause_ns = 0;  // the last pause, which grows
};

class Handshake {
 public:
  explicit Handshake(Link& link) : link_(link) {}

  // ---- Connector.
  // Copies what another link has learnt of this peer: key_for() then works before WELCOME.
  void foresee(const Handshake& other);
  bool knows_peer() const noexcept;
  // Returns the key of the link that carries connects with these wishes. The peer must be known.
  PathKey key_for(const AskedRails& asked) const;
  PathKey key() const;  // of this link
  void dial_as(const Redialing& anew) noexcept { anew_ = anew; }
  void greet();  // the connection is up: sends HELLO
  // After the loss of the connection. Returns true if it dials again, or has ended the link.
  bool say_hello_again(Errc reason);
  // The handshake has failed, and the acceptor has failed the accepts of the listeners that HELLO
  // named. Fails the connects to these; other connects wait for another link. Does nothing if the
  // link is up.
  void fail_named(Errc why);
  // Returns true while the link is up but its channels wait for one measured round trip, or for the
  // first sign that its only path leads to the peer.
  bool holds_channels() const noexcept { return measure_from_ns_ != 0 || needs_sign_; }

  // ---- Acceptor.
  // The link has its connection. Sends WELCOME when its queue pairs are made, or at once if it has
  // none to make.
  void accept(Hello hello, PathChoice choice);
  // The same, but datagrams go out first, and what they find out chooses the paths.
  void prove(Hello hello, std::unique_ptr<CableProofs::Question> question);
  bool names_one_of(std::span<const Id128> listeners) const;

  // ---- Both.
  void tend();
  void brought_up(const BringUp& done);  // the bring-up has ended, whatever its outcome
  void bring_up_starts();  // begins the step's time anew: until now it waited for a thread of ours
  // Returns when the step that is under way began.
  std::uint64_t began_ns() const;
  const SocketAddress& source() const noexcept { return source_; }

  // ---- Frames of the peer. Each returns false if the link must end.
  bool on(const Welcome& body);
  bool on(const Attach& body);
  bool on(const Ready& body);
  bool on(const Refuse& body);

 private:
  void enter(LinkState state);  // begins a step and its time
  void take_terms(Hello& hello);
  void tend_proof();
  struct PathPlan {
    const PathSets& sets;
    const std::vector<WirePath>& beside;  // over other hosts, beside the primary paths
    bool by_proof = false;                // there is a path over a cable that is not known yet
    std::uint32_t relayed = 0;            // the number of further paths over other hosts
    const std::string& none;              // why no rails meet
  };
  bool build(const TransferPolicy& policy, const PathPlan& plan);
  bool add_path(PeerLink& to, const WirePath& path, PathClass kind);
  void add_places(PeerLink& to, const PathPlan& plan);
  std::uint32_t rails_of_cable(const PathPlan& plan, const verbs::Rail& rail) const;
  TransferPolicy policy_towards(const std::string& peer_site) const;
  std::uint32_t site_depth() const;
  void cross_to(const std::string& site, std::uint64_t round_trip_ns);
  std::vector<Id128> name_listeners();
  void probe_paths();
  void begin_measure();
  bool measure();
  void tend_measure();
  void await_signs();
  void tend_signs();
  bool note_signs();
  std::size_t window_bytes() const noexcept;
  bool some_device_lags(std::span<const WirePath> paths) const;
  void turn_away();
  BringUp::Order to_make() const;
  void welcome();
  void end_unmade();
  bool fits(const Welcome& body) const;
  std::vector<WireRail> own_rails() const;  // whatever the state of their ports
  std::uint32_t attached_count() const noexcept;
  void bring_up(const std::vector<WirePath>& paths, const std::vector<std::uint8_t>& down);
  bool may_be_down(const std::vector<std::uint8_t>& down) const;
  std::vector<std::uint8_t> not_up(const BringUp& done) const;
  void attach(const BringUp& done);
  void ready(const BringUp& done);
  const char* awaited() const;
  bool shakes() const noexcept;  // true for a connector, from its first HELLO to READY
  void give_up(const char* what);
  std::uint64_t rails_up() const;
  bool was_asked_in_vain(const Welcome& body);
  bool is_unproven() const;
  std::uint64_t rails_to_ask() const;
  bool asks_anew();
  void mark_guesses(const PathPlan& plan);
  void drop_guesses();
  bool met_nobody(const BringUp& done);
  bool dials_anew(const Refuse& body);
  bool asks_elsewhere(const Refuse& body);
  std::vector<SocketAddress> next_addresses() const;
  void say_hello_at(std::span<const SocketAddress> addresses);
  void end_as_refused(const Refuse& body);
  void tend_silence(std::uint64_t now_ns);

  Link& link_;
  std::uint32_t psn_ = 0;     // first packet number of our queue pairs
  bool said_shared_ = false;  // HELLO named subnets that are on several cables
  bool needs_sign_ = false;   // channels wait for a sign
  std::uint64_t hello_at_ns_ = 0;
  std::uint64_t measure_from_ns_ = 0;    // 0: no measurement is under way
  std::uint64_t signs_from_ns_ = 0;      // 0: no signs are awaited
  std::vector<std::uint64_t> measured_;  // round trip by path; 0: not yet
  std::uint64_t step_deadline_ns_ = 0;   // of awaited(); 0: no step is under way
  SocketAddress source_;                 // the peer's address on the connection of HELLO
  std::vector<Id128> listeners_;         // acceptor: the ones that HELLO named
  struct Proving {
    Hello hello;
    std::unique_ptr<CableProofs::Question> question;
  };
  std::unique_ptr<Proving> proving_;    // acceptor: until the paths are chosen
  Id128 offered_{};                     // connector: the nonce of its HELLO's offer
  std::uint64_t said_up_ = 0;           // connector: the rails that its HELLO said to be up
  std::unique_ptr<Welcome> welcome_;    // acceptor: unsent until the queue pairs are made
  std::vector<WirePath> meet_;          // connector: the pairs of rails in WELCOME
  std::uint32_t hello_tries_ = 0;       // dials after a lost connection
  std::uint32_t silent_addresses_ = 0;  // dials after an address that did not answer HELLO
  std::uint64_t hello_until_ns_ = 0;    // the end of all waits for WELCOME; 0: no HELLO was sent
  std::unique_ptr<Refuse> refusal_;     // connector: the first of them that may be another host's
  std::vector<SocketAddress> refused_;  // connector: the addresses that have refused
  Redialing anew_;                      // connector
};

}  // namespace mesh::engine
