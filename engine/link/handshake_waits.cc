// The waits of a handshake: steps that the peer leaves unanswered, refusals, and between two sites
// the measuring of the round trip before channels open.
#include "engine/link/context.h"
#include "engine/link/half_open.h"
#include "engine/link/handshake.h"
#include "engine/link/link.h"
#include "engine/link/link_setup.h"
#include "engine/link/peer_words.h"
#include "src/base/check.h"
#include "src/base/log.h"
#include "src/base/random.h"
#include "src/base/timeouts.h"
#include "src/verbs/discovery.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

namespace mesh::engine {

std::uint64_t Handshake::began_ns() const {
  return step_deadline_ns_ == 0 ? link_.host().now_ns()
                                : step_deadline_ns_ - kHandshakeStepToAnswerNs;
}

bool Handshake::names_one_of(std::span<const Id128> listeners) const {
  return std::any_of(listeners.begin(), listeners.end(), [this](const Id128& nonce) {
    return std::any_of(listeners_.begin(), listeners_.end(),
                       [&nonce](const Id128& own) { return same_secret(own, nonce); });
  });
}

// Returns what the link waits for, as a clause for log lines; null if for nothing.
const char* Handshake::awaited() const {
  const BringUp* const bring_up = link_.bring_up();
  switch (link_.state()) {
    case LinkState::AwaitWelcome: return "has not answered our HELLO with WELCOME";
    case LinkState::AwaitAttach: return "has not answered our WELCOME with ATTACH";
    case LinkState::Making:
    case LinkState::Connecting:
      if (bring_up == nullptr || bring_up->over()) return nullptr;
      return bring_up->running() ? "our queue pairs to it are not up"
                                 : "no thread was free to bring our queue pairs up";
    case LinkState::AwaitReady: return "has not answered our ATTACH with READY";
    case LinkState::Up:
      if (step_deadline_ns_ == 0) return nullptr;
      return link_.has_carried() ? "has not closed its side of our channels"
                                 : "has not answered our READY with OPEN";
    case LinkState::Dialing:  // has the control plane's deadline
    case LinkState::Proving:  // has the question's
    case LinkState::ByeSent:
    case LinkState::Down: break;
  }
  return nullptr;
}

void Handshake::tend() {
  const std::uint64_t now_ns = link_.host().now_ns();
  if (link_.state() == LinkState::Dialing && link_.connection() == 0) {
    if (now_ns < anew_.at_ns) return link_.host().tend_at(anew_.at_ns);
    link_.dial_all();
  }
  if (link_.state() == LinkState::Proving) tend_proof();
  if (link_.state() == LinkState::Up) {
    const bool idle = link_.carries_nothing();
    if (!idle) step_deadline_ns_ = 0;
    if (idle && step_deadline_ns_ == 0) enter(LinkState::Up);
  }
  tend_measure();
  tend_signs();
  tend_silence(now_ns);
  if (const char* const what = awaited(); what != nullptr && now_ns >= step_deadline_ns_)
    give_up(what);
}

// ---- Addresses. Another host, or a program that is none of ours, may answer at an address that
// many hosts have, such as that of a bridge for containers. Only WELCOME proves an address.

// Returns the peer's addresses from the one behind the last that was asked, without those that have
// refused.
std::vector<SocketAddress> Handshake::next_addresses() const {
  std::vector<SocketAddress> next = link_.port.addresses;
  const auto asked = std::find_if(next.begin(), next.end(), [this](const SocketAddress& each) {
    return each.same_host(source_);
  });
  if (asked != next.end()) std::rotate(next.begin(), asked + 1, next.end());
  std::erase_if(next, [this](const SocketAddress& each) {
    return std::any_of(refused_.begin(), refused_.end(),
                       [&each](const SocketAddress& one) { return one.same_host(each); });
  });
  return next;
}

void Handshake::say_hello_at(std::span<const SocketAddress> addresses) {
  link_.drop_connection();
  link_.set_state(LinkState::Dialing);
  // The peer has forgotten our HELLO with its connection.
  link_.conversation() = Conversation{};
  link_.set_connection(
      link_.host().plane().dial({.addresses = addresses,
                                 .port = link_.port.port,
                                 .timeout_ns = refusal_ ? kRedialToAnswerNs : kDialToAnswerNs}));
}

// The peer may have dropped the connection for want of room, so it is dialed once more at the same
// address before another one is asked.
bool Handshake::say_hello_again(Errc reason) {
  if (link_.state() == LinkState::Dialing && refusal_) {
    end_as_refused(*refusal_);  // no other address answers
    return true;
  }
  if (link_.state() != LinkState::AwaitWelcome) return false;
  std::vector<SocketAddress> next = link_.port.proven ? link_.port.addresses : next_addresses();
  const bool another = !link_.port.proven && next.size() > 1;
  const std::size_t tries_max = kHelloTriesMax + (another ? 2 * next.size() : 0);
  if (hello_tries_ >= tries_max || (reason != Errc::PeerGone && !another)) return false;
  if (another && reason == Errc::PeerGone && hello_tries_ % 2 == 0)
    std::rotate(next.begin(), next.end() - 1, next.end());
  ++hello_tries_;
  say_hello_at(next);
  return true;
}

// Asks the peer's other addresses if another host may have refused. Only the host that has the
// communicator has other reasons than that it has none.
bool Handshake::asks_elsewhere(const Refuse& body) {
  if (link_.state() != LinkState::AwaitWelcome || link_.port.proven ||
      body.reason != Errc::PeerClosed)
    return false;
  if (!refusal_)
    refusal_ = std::make_unique<Refuse>(Refuse{
        .reason = body.reason, .text = fmt::format("{}: {}", link_.connection_name(), body.text)});
  refused_.push_back(source_);
  const std::vector<SocketAddress> next = next_addresses();
  if (next.empty()) return false;
  LOG_INFO("peer {}: {} refuses: {}; its other addresses are asked", link_.identity().peer_host,
           link_.connection_name(), body.text);
  say_hello_at(next);
  return true;
}

// Asks the next address if this one has taken HELLO and is silent.
void Handshake::tend_silence(std::uint64_t now_ns) {
  if (link_.state() != LinkState::AwaitWelcome || link_.port.proven ||
      now_ns < hello_at_ns_ + (kHelloToNextAddressNs << silent_addresses_))
    return;
  const std::vector<SocketAddress> next = next_addresses();
  if (next.size() < 2) return;
  LOG_INFO("peer {}: {} has not answered HELLO in {} s; its other addresses are asked",
           link_.identity().peer_host, link_.connection_name(),
           (now_ns - hello_at_ns_) / kNsPerSecond);
  ++silent_addresses_;
  say_hello_at(next);
}

void Handshake::give_up(const char* what) {
  const std::string text = fmt::format("{} in {} s", what, kHandshakeStepToAnswerNs / kNsPerSecond);
  if (link_.has_carried()) {
    link_.send(Bye{});
    return link_.take_down(Errc::PeerClosed);
  }
  if (link_.may_cause_lines()) {
    LOG_WARN("peer {} ({}): {}; the handshake is given up, see its log", link_.identity().peer_host,
             link_.connection_name(), text);
  }
  link_.send(Refuse{
      .reason = Errc::Timeout,
      .text = fmt::format("host {} gives up the handshake: its peer {}",
                          link_.host().options().provider->host_name(), in_peers_words(text))});
  fail_named(Errc::Timeout);
  link_.take_down(Errc::Timeout);
}

std::uint64_t Handshake::rails_up() const {
  std::uint64_t up = 0;
  for (std::size_t i = 0; i < link_.host().rails().size(); ++i) {
    if (verbs::port_is_up(*link_.host().options().provider, link_.host().rails()[i]))
      up |= std::uint64_t{1} << i;
  }
  return up;
}

// Dials anew if no datagram was answered and a port of ours has gone down or come up since HELLO:
// the acceptor has taken it for silent, and its place in the order of ports tells nothing.
bool Handshake::was_asked_in_vain(const Welcome& body) {
  const auto is_met = [](const WireCables& each) { return each.met != 0; };
  if (body.cables.empty() || std::any_of(body.cables.begin(), body.cables.end(), is_met) ||
      rails_up() == said_up_)
    return false;
  link_.send(Refuse{.reason = Errc::Exhausted,
                    .text = fmt::format("host {}: its ports have changed; it dials again",
                                        link_.host().options().provider->host_name())});
  anew_.at_ns = link_.host().now_ns();
  link_.dial_anew(anew_);
  return true;
}

// Returns true for a link that has one path and no other way: its subnet may be on several cables
// of a third host, and nobody has asked whether the ports meet.
bool Handshake::is_unproven() const {
  const PathSet& paths = link_.peer_link().paths();
  return paths.count() == 1 && link_.host().cables() != nullptr && !said_shared_ &&
         !link_.terms.crossing.apart() && paths[0].device->rail().ethernet;
}

// Returns, as bits, the connector's rail of such a link.
std::uint64_t Handshake::rails_to_ask() const {
  if (!link_.connector() || link_.waiting.empty() || !is_unproven()) return 0;
  return std::uint64_t{1} << link_.peer_link().paths()[0].rail;
}

// Marks the paths that may be none: datagrams over them got no answer, or are yet to be sent. Other
// ways to the peer are looked for then.
void Handshake::mark_guesses(const PathPlan& plan) {
  const topo::CableProof& cables = link_.terms.cables;
  const bool ask_later = link_.connector() ? rails_to_ask() != 0 : is_unproven();
  for (Path& path : link_.peer_link().paths().all()) {
    const topo::WirePair pair{.local = path.rail, .peer = path.ends.peer_rail};
    const bool silent =
        plan.relayed != 0 && topo::holds(cables.asked, pair) && !topo::holds(cables.met, pair);
    path.ends.guessed = !path.ends.is_place() && (silent || ask_later);
  }
}

// Drops the marks of the paths that have come up.
void Handshake::drop_guesses() {
  const ProgressLoop::Guard guard(link_.context().loop);
  for (Path& path : link_.peer_link().paths().all())
    if (path.health.state == PathState::Up) path.ends.guessed = false;
}

// Ends the link if its one path could not be brought up, and the connector dials anew.
bool Handshake::met_nobody(const BringUp& done) {
  if (done.outcome() != Errc::Transport) return false;
  if (link_.connector()) return asks_anew();
  if (!is_unproven()) return false;
  link_.send(Refuse{.reason = Errc::Exhausted,
                    .text = fmt::format("host {}: its port does not reach the connector's",
                                        link_.host().options().provider->host_name())});
  link_.take_down(Errc::Exhausted);
  return true;
}

// Dials anew if nobody has asked whether the ports of the one path meet. The next HELLO says that
// this is in doubt, and datagrams tell.
bool Handshake::asks_anew() {
  const std::uint64_t rails = rails_to_ask();
  if (rails == 0) return false;
  link_.host().cables()->note_shared(rails);
  link_.send(Refuse{.reason = Errc::Exhausted,
                    .text = fmt::format("host {}: it asks first whether the ports meet",
                                        link_.host().options().provider->host_name())});
  anew_.at_ns = link_.host().now_ns();
  link_.dial_anew(anew_);
  return true;
}

bool Handshake::on(const Refuse& body) {
  // The acceptor's port reaches another host than ours.
  if (link_.state() == LinkState::AwaitReady && body.reason == Errc::Exhausted && asks_anew())
    return true;
  if (!dials_anew(body) && !asks_elsewhere(body)) end_as_refused(body);
  return true;
}

void Handshake::end_as_refused(const Refuse& body) {
  const std::string& host = link_.identity().peer_host;
  // Both ends of a broken link tell each other. An end that has warned already does not warn twice.
  if (link_.has_carried()) {
    const bool first = link_.failure() == Errc::Ok && link_.host().peer_log().is_first_end(host);
    MESH_LOG(first ? LogLevel::Warn : LogLevel::Detail, "peer {}: {}", host,
             without_name(host, body.text));
  } else if (link_.may_cause_lines()) {
    const bool dials_again = !link_.connector() && body.reason == Errc::Exhausted;
    MESH_LOG(dials_again ? LogLevel::Detail : LogLevel::Warn, "peer {}: {}",
             link_.connection() != 0 ? link_.connection_name() : host, body.text);
  }
  fail_named(body.reason);
  link_.take_down(body.reason);
}

bool Handshake::shakes() const noexcept {
  const LinkState state = link_.state();
  return link_.connector() &&
         (state == LinkState::AwaitWelcome || state == LinkState::Connecting ||
          state == LinkState::AwaitReady || (state == LinkState::Dialing && refusal_ != nullptr));
}

void Handshake::fail_named(Errc why) {
  if (!shakes()) return;
  const std::vector<PendingConnect*> waiting = link_.waiting;
  for (PendingConnect* const stage : waiting) {
    if (stage->named) link_.fail_connect(*stage, why);
  }
  if (link_.waiting.empty()) return;
  anew_.at_ns = link_.host().now_ns();
  link_.dial_anew(anew_);
}

// Dials anew as a connector that found no room. Returns false if the refusal is final.
bool Handshake::dials_anew(const Refuse& body) {
  if (!shakes() || body.reason != Errc::Exhausted) return false;
  const std::uint64_t now_ns = link_.host().now_ns();
  if (anew_.until_ns == 0) anew_.until_ns = now_ns + kHandshakeStepToAnswerNs;
  if (now_ns >= anew_.until_ns) return false;
  anew_.pause_ns = std::clamp(2 * anew_.pause_ns, kDialPauseMinNs, kTryPauseMaxNs);
  anew_.at_ns = now_ns + anew_.pause_ns;
  LOG_DETAIL("peer {}: {}; dialing again in {} ms", link_.connection_name(), body.text,
             anew_.pause_ns / kNsPerMs);
  link_.dial_anew(anew_);
  return true;
}

// ---- Between sites.

// Both sides compute this alike, from what HELLO tells and the acceptor's own policy.
TransferPolicy Handshake::policy_towards(const std::string& peer_site) const {
  const EngineOptions& options = link_.host().options();
  TransferPolicy policy = options.policy;
  const SiteCrossing crossing{.own = options.settings.site, .peer = peer_site};
  if (!crossing.apart()) return policy;
  policy.rq_depth = site_depth();
  policy.sq_depth = std::max(policy.sq_depth, site_depth());
  return policy;
}

std::uint32_t Handshake::site_depth() const {
  const std::uint32_t usual = link_.host().options().policy.rq_depth;
  std::uint32_t depth = long_depth(usual, 0);
  for (const verbs::Rail& rail : link_.host().rails())
    depth = std::min(depth, long_depth(usual, rail.qp_wr_max));
  return depth;
}

void Handshake::cross_to(const std::string& site, std::uint64_t round_trip_ns) {
  link_.terms.crossing = {
      .own = link_.host().options().settings.site, .peer = site, .round_trip_ns = round_trip_ns};
}

// Starts to measure: each path's first probe is a write of no bytes, and completes after one round
// trip. Channels open after that.
void Handshake::begin_measure() {
  CHECK(link_.connector() && link_.state() == LinkState::Up);
  const ProgressLoop::Guard guard(link_.context().loop);
  PeerLink& peer_link = link_.peer_link();
  for (Path& path : peer_link.paths().all())
    set_inflight(path, link_.terms.crossing, peer_link.policy());
  if (!link_.terms.crossing.apart() || attached_count() == 0) return;
  measure_from_ns_ = link_.host().now_ns();
  measured_.assign(link_.peer_link().paths().count(), 0);
}

// Returns false if some probe is still under way.
bool Handshake::measure() {
  CHECK(measure_from_ns_ != 0);
  const std::uint64_t now_ns = link_.host().now_ns();
  const std::uint64_t passed_ns = std::max<std::uint64_t>(now_ns - measure_from_ns_, 1);
  bool all = true;
  const ProgressLoop::Guard guard(link_.context().loop);
  link_.peer_link().paths().drain_completions();
  for (std::uint32_t i = 0; i < measured_.size(); ++i) {
    Path& path = link_.peer_link().paths()[i];
    if (measured_[i] != 0 || path.health.state != PathState::Up) continue;
    const auto& express = SendQueuePair::of(*path.queue_pairs[0]);
    const bool through = express.outstanding() == 0 || express.full_packet_hangs();
    all &= through;
    if (!through) continue;
    measured_[i] = passed_ns;
    SiteCrossing crossing = link_.terms.crossing;
    crossing.round_trip_ns = passed_ns;
    set_inflight(path, crossing, link_.peer_link().policy());
  }
  if (!all && passed_ns < kProbeToRoundTripNs) return false;
  const std::uint64_t longest = *std::max_element(measured_.begin(), measured_.end());
  if (longest != 0) link_.terms.crossing.round_trip_ns = longest;
  return true;
}

// Starts to wait for the first completions over paths of which nothing but addresses says that they
// lead to the peer: a third host with the peer's address may be at the cable instead, and takes
// what it does not know without a word. Channels wait, too, if nobody has asked where the only path
// leads. What completes tells of a cable, also where a firewall drops datagrams.
void Handshake::await_signs() {
  const PathSet& paths = link_.peer_link().paths();
  const topo::CableProof& cables = link_.terms.cables;
  const auto is_doubtful = [&](const Path& path) {
    const topo::WirePair pair{.local = path.rail, .peer = path.ends.peer_rail};
    return !path.ends.is_place() && path.health.state == PathState::Up &&
           !topo::holds(cables.met, pair);
  };
  const bool any = [&] {
    const ProgressLoop::Guard guard(link_.context().loop);
    return std::any_of(paths.all().begin(), paths.all().end(), is_doubtful);
  }();
  needs_sign_ = any && rails_to_ask() != 0;
  if (!needs_sign_ && (!any || cables.asked.empty())) return;
  signs_from_ns_ = link_.host().now_ns();
  tend_signs();
}

// Returns true if each direct path that is up has shown a sign of the peer.
bool Handshake::note_signs() {
  std::vector<topo::WirePair> met;
  bool all = true;
  {
    const ProgressLoop::Guard guard(link_.context().loop);
    PathSet& paths = link_.peer_link().paths();
    const std::vector<std::uint64_t> signs = paths.signs_of_peer();
    for (const Path& path : paths.all()) {
      if (path.ends.is_place() || path.health.state != PathState::Up) continue;
      all &= signs[path.index] > 1;
      if (signs[path.index] > 1) met.push_back({.local = path.rail, .peer = path.ends.peer_rail});
    }
  }
  link_.terms.cables.add_met(met);
  if (CableProofs* const proofs = link_.host().cables(); proofs != nullptr)
    proofs->note_met(link_.terms.peer_ticket, met);
  return all;
}

void Handshake::tend_signs() {
  if (signs_from_ns_ == 0 || link_.state() != LinkState::Up || link_.failure() != Errc::Ok) return;
  const std::uint64_t now_ns = link_.host().now_ns();
  const bool all = note_signs();
  const bool is_late = now_ns >= signs_from_ns_ + kProbeToAskNs;
  if (!all && !is_late) return link_.host().tend_at(now_ns);  // again in 1 ms
  signs_from_ns_ = 0;
  if (!std::exchange(needs_sign_, false)) return;
  if (!link_.terms.cables.met.empty() || !asks_anew()) link_.open_channels();
}

void Handshake::tend_measure() {
  if (measure_from_ns_ == 0 || link_.state() != LinkState::Up || link_.failure() != Errc::Ok)
    return;
  if (!measure()) return link_.host().tend_at(link_.host().now_ns());  // again in 1 ms
  measure_from_ns_ = 0;
  link_.open_channels();
}

}  // namespace mesh::engine
