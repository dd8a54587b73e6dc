#include "engine/link/path_repair.h"

#include "engine/data/path_text.h"
#include "engine/link/context.h"
#include "engine/link/link.h"
#include "engine/link/link_setup.h"
#include "engine/link/peer_words.h"
#include "src/base/check.h"
#include "src/base/log.h"
#include "src/base/random.h"
#include "src/base/timeouts.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace mesh::engine {

// Takes the next step of opening a path again. Returns true if it must be called again in 1 ms.
bool PathRepair::reopen(std::uint32_t index) {
  Repair& repair = repairs_[index];
  // A path gets new queue pairs after the old ones are gone: a hung device must not collect them.
  const bool begins = !repair.being_opened() || repair.acceptor_step == AcceptorStep::Asked;
  const bool is_held = link_.peer_link().paths()[index].destroys() || link_.rises(index);
  if (begins && is_held) return false;  // its end wakes us
  if (!link_.connector()) return repair.acceptor_step == AcceptorStep::Asked && answer(index);
  const bool due = link_.host().now_ns() >= repair.at_ns;
  switch (repair.connector_step) {
    case ConnectorStep::Waiting:
      if (!due && relayed_.has_news(index)) {
        repair.backoff_ns /= 2;  // the pause has not ended, so it does not grow
        repair.at_ns = link_.host().now_ns();
        return true;
      }
      if (due) return begin_try(index);
      link_.host().tend_at(repair.at_ns);
      return false;
    case ConnectorStep::Chaining:
    case ConnectorStep::AwaitReopened:
    case ConnectorStep::Joining:
      if (tend_chains(index)) return true;
      // A slow device answers late, too, so only the first try doubts the connection.
      if (due && repair.connector_step == ConnectorStep::AwaitReopened &&
          repair.backoff_ns == kTryPauseMinNs)
        link_.distrust_connection(fmt::format("{}: no answer to REOPEN", link_.connection_name()));
      if (due) give_up_try(index, "the peer, or a host on the way, has not answered");
      link_.host().tend_at(repair.at_ns);
      return false;
    case ConnectorStep::Probing: return probe(index);
    case ConnectorStep::Reopened:
      raise(index, repair.answer->ends.front(), relayed_.first_hop(index));
      repair.answer.reset();
      return true;
    case ConnectorStep::Making:
    case ConnectorStep::Rising: return false;  // the end of the bring-up wakes us
  }
  return false;
}

// Removes the path's old queue pairs, so that others may be made under a new epoch.
bool PathRepair::clear_for(std::uint32_t index, std::uint32_t epoch, std::string* why) {
  Path& path = link_.peer_link().paths()[index];
  const verbs::Rail& rail = path.device->rail();
  if (path.device->gone()) {
    *why = path.device->is_late() ? "our card has not answered a command yet"
                                  : verbs::card_left_text(rail);
    return false;
  }
  if (link_.peer_link().memory().lacks(*path.device)) {
    *why = fmt::format("{} has not registered the link's memory", rail.info.name);
    return false;
  }
  // A port that was down at start may stay down for ever. Its event ends the wait if it comes up.
  *why = verbs::why_away(path.device->provider(), rail);
  if (!why->empty()) return false;
  if (!verbs::gid_index_now(*link_.host().options().provider, rail, path.ends.own_address)) {
    *why = "our port has lost its address";
    return false;
  }
  link_.peer_link().paths().provide_queue_pairs(path);
  {
    const ProgressLoop::Guard guard(link_.context().loop);
    path.stop();
    link_.peer_link().paths().destroy(path);
    take_port_speed(link_.peer_link(), path);
    set_inflight(path, link_.terms.crossing, link_.peer_link().policy());
    path.health.epoch = epoch;
    ++path.health.reopen_tries;
  }
  repairs_[index].psn = random_psn();
  return true;
}

// Ends the pause before the next try. A port that flaps has such a try after each shortest pause at
// most.
void PathRepair::hurry(Repair& repair) const {
  repair.changed = false;
  repair.hurried = true;
  const std::uint64_t soonest_ns = repair.hurried_ns == 0 ? 0 : repair.hurried_ns + kTryPauseMinNs;
  repair.at_ns = std::max(link_.host().now_ns(), soonest_ns);
}

bool PathRepair::begin_try(std::uint32_t index) {
  CHECK(link_.connector() && !link_.rises(index));
  Repair& repair = repairs_[index];
  if (repair.hurried) repair.hurried_ns = link_.host().now_ns();
  const PathEnds& ends = link_.peer_link().paths()[index].ends;
  if (ends.relayed) return begin_chains(index);
  std::string why;
  if (ends.by_proof) link_.ask_cables();
  if (ends.by_proof && !relayed_.find_cable(index, &why)) {
    give_up_try(index, why);
    return false;
  }
  make(index);
  return false;
}

void PathRepair::make(std::uint32_t index) {
  Repair& repair = repairs_[index];
  std::string why;
  if (!clear_for(index, link_.peer_link().paths()[index].health.epoch + 1, &why))
    return give_up_try(index, why);
  repair.connector_step = ConnectorStep::Making;
  link_.host().tend_soon();
  link_.begin_bring_up({.makes = {index}, .settings = link_.settings(), .reopens = true});
}

// The connector's queue pairs are made: sends REOPEN.
void PathRepair::ask(std::uint32_t index) {
  Repair& repair = repairs_[index];
  CHECK(link_.connector() && repair.connector_step == ConnectorStep::Making);
  repair.connector_step = ConnectorStep::AwaitReopened;
  repair.at_ns = link_.host().now_ns() + kReopenToAnswerNs;
  link_.host().tend_at(repair.at_ns);
  Reopen asks{.path = static_cast<std::uint8_t>(index),
              .epoch = link_.peer_link().paths()[index].health.epoch,
              .ends = offer_path(link_.peer_link(), index, link_.terms.window_words, repair.psn)};
  relayed_.lead(index, &asks);
  link_.send(asks);
}

// Connector: tells the acceptor that the try is over, so that it destroys its queue pairs and the
// path may stand by.
void PathRepair::say_left(std::uint32_t index, const std::string& why) {
  if (!repairs_[index].is_known()) return;
  link_.send(Fence{.path = static_cast<std::uint8_t>(index),
                   .epoch = link_.peer_link().paths()[index].health.epoch,
                   .cause = in_peers_words(why),
                   .taken = {}});
}

// Acceptor: returns true if the FENCE leaves a try. Nothing was sent over its queue pairs, so there
// is nothing to count or to answer.
bool PathRepair::hear_left(const Fence& body) {
  Repair& repair = repairs_[body.path];
  const bool rises = repair.acceptor_step == AcceptorStep::Rising;
  const bool is_next = repair.asked && repair.asked->epoch == body.epoch;
  const bool is_now = repair.acceptor_step == AcceptorStep::AwaitPathUp || rises;
  if (!is_next && !(is_now && repair.asked_now.epoch == body.epoch)) return false;
  if (is_next) repair.asked.reset();
  {
    const ProgressLoop::Guard guard(link_.context().loop);
    link_.peer_link().paths()[body.path].health.last_cause =
        fmt::format("host {}: {}", link_.identity().peer_host, body.cause);
  }
  repair.left = rises;  // a thread is at work on the queue pairs
  if (!rises) end_left(body.path);
  return true;
}

// Acceptor: destroys the queue pairs of a try that the connector has left.
void PathRepair::end_left(std::uint32_t index) {
  repairs_[index].acceptor_step = AcceptorStep::AwaitReopen;
  take_apart(index);
  link_.host().tend_soon();  // the path may stand by now
}

void PathRepair::give_up_try(std::uint32_t index, const std::string& why) {
  Repair& repair = repairs_[index];
  say_left(index, why);
  Path& path = link_.peer_link().paths()[index];
  bool stalled = false, other_cause = false;
  {
    const ProgressLoop::Guard guard(link_.context().loop);
    stalled = link_.peer_link().paths().stalled();
    path.stop();
    link_.peer_link().paths().destroy(path);
    other_cause = std::exchange(path.health.last_cause, why) != why;
  }
  relayed_.cut(index);
  repair.connector_step = ConnectorStep::Waiting;
  // The pause is shorter if no path is up: then a try disturbs nothing.
  const std::uint64_t pause_max_ns = stalled             ? kReopenPauseStalledMaxNs
                                     : path.ends.guessed ? kReopenPauseOfGuessMaxNs
                                                         : kReopenPauseMaxNs;
  const std::uint64_t growth = std::exchange(repair.hurried, false) ? 1 : 2;
  const std::uint64_t before_ns = std::exchange(
      repair.backoff_ns, std::clamp(repair.backoff_ns * growth, kTryPauseMinNs, pause_max_ns));
  repair.at_ns = link_.host().now_ns() + repair.backoff_ns;
  if (repair.changed) hurry(repair);
  link_.host().tend_at(repair.at_ns);
  // A try that ends like the last one, at the longest pause, is no news.
  if (other_cause || repair.backoff_ns != before_ns)
    LOG_DETAIL("peer {}: path {} is still down: {}; next try in {} ms", link_.identity().peer_host,
               path.text(), why, (repair.at_ns - link_.host().now_ns()) / kNsPerMs);
}

bool PathRepair::on(const Reopen& body) {
  if (link_.state() != LinkState::Up) return true;
  if (body.path >= link_.peer_link().paths().count() ||
      body.ends.qpn.size() != 1 + link_.peer_link().policy().qps) {
    return link_.complain(fmt::format("opens path {} of {} with {} queue pairs", body.path,
                                      link_.peer_link().paths().count(), body.ends.qpn.size()));
  }
  tend_lost();
  Path& path = link_.peer_link().paths()[body.path];
  {
    const ProgressLoop::Guard guard(link_.context().loop);
    if (body.epoch <= path.health.epoch) return true;  // a repeated REOPEN
    if (path.health.state == PathState::Standby) {
      link_.peer_link().paths().call(path);
      repairs_[body.path].lost_at_ns = link_.host().now_ns();
    }
    if (path.health.state != PathState::Down) {
      return link_.complain(fmt::format("opens path {}, which is not down", path.name));
    }
  }
  Repair& repair = repairs_[body.path];
  repair.asked = body;
  if (repair.acceptor_step != AcceptorStep::Rising) repair.acceptor_step = AcceptorStep::Asked;
  link_.host().tend_soon();
  return true;
}

// Destroys what a failed try has left. Returns false while the device is still at it.
bool PathRepair::take_apart(std::uint32_t index) {
  Path& path = link_.peer_link().paths()[index];
  {
    const ProgressLoop::Guard guard(link_.context().loop);
    path.stop();
    link_.peer_link().paths().destroy(path);
  }
  return !path.destroys();
}

bool PathRepair::answer(std::uint32_t index) {
  CHECK(!link_.connector() && repairs_[index].asked.has_value());
  if (!take_apart(index)) return false;  // the device's answer wakes us
  Repair& repair = repairs_[index];
  const Reopen asked = *std::exchange(repair.asked, std::nullopt);
  std::string why;
  const bool named = link_.peer_link().paths()[index].ends.is_place() || !asked.via.empty();
  const bool leads = !named || relayed_.take_route_of(asked, &why);
  if (!leads || !clear_for(index, asked.epoch, &why)) {
    refuse(asked, why);
    return false;
  }
  repair.asked_now = asked;
  raise(index, asked.ends, asked.via);
  return true;
}

// `via`: the middle host next to us; empty if the path is direct.
void PathRepair::raise(std::uint32_t index, const WirePath& peer, std::vector<WireHop> via) {
  Repair& repair = repairs_[index];
  const std::vector<WireRail>& rails = link_.terms.peer_rails;
  const Path& path = link_.peer_link().paths()[index];
  if (link_.connector())
    repair.connector_step = ConnectorStep::Rising;
  else
    repair.acceptor_step = AcceptorStep::Rising;
  using Indices = std::vector<std::uint32_t>;
  link_.begin_bring_up({.peer_rails = via.empty() ? rails : with_hop(rails, path, via.front()),
                        .makes = link_.connector() ? Indices{} : Indices{index},
                        .paths = {via.empty() ? peer : over_hop(peer, via.front())},
                        .indices = {index},
                        .psn = repair.psn,
                        .settings = link_.settings(),
                        .reopens = true,
                        .via = std::move(via),
                        .memory = memory_for(path)});
  link_.host().tend_soon();
}

void PathRepair::refuse(const Reopen& asked, const std::string& why) {
  repairs_[asked.path].acceptor_step = AcceptorStep::AwaitReopen;
  link_.send(Reopened{.path = asked.path,
                      .epoch = asked.epoch,
                      .result = Errc::Unreachable,
                      .text = told_by(link_.host().options().provider->host_name(), why)});
}

bool PathRepair::on(const Reopened& body) {
  if (link_.state() != LinkState::Up || body.path >= link_.peer_link().paths().count())
    return link_.state() != LinkState::Up;
  Repair& repair = repairs_[body.path];
  Path& path = link_.peer_link().paths()[body.path];
  if (body.result == Errc::Ok && body.rail >= link_.terms.peer_rails.size()) return false;
  {
    const ProgressLoop::Guard guard(link_.context().loop);
    // The acceptor's entries have other keys, also if the try was given up meanwhile.
    if (body.result == Errc::Ok && body.card != link_.peer_link().paths().cards.of(body.rail))
      link_.peer_link().change_card(body.rail, body.card);
    if (path.health.state != PathState::Down || body.epoch != path.health.epoch)
      return true;  // answers a try that was given up
  }
  if (repair.connector_step != ConnectorStep::AwaitReopened) return true;
  if (body.result != Errc::Ok) {
    repair.connector_step = ConnectorStep::Waiting;  // the acceptor keeps nothing for this try
    give_up_try(body.path, body.text);
    return true;
  }
  const std::size_t queue_pairs = 1 + link_.peer_link().policy().qps;
  if (body.ends.front().qpn.size() != queue_pairs) return false;
  const bool relayed = relayed_.chains(body.path) != nullptr;
  // The hosts on the way are told these queue pairs, and would blame us for a wrong number.
  if (relayed && (body.via.empty() || body.via.front().qps.size() != queue_pairs)) return false;
  repair.answer = body;
  repair.connector_step = ConnectorStep::Reopened;
  if (relayed) {
    relayed_.join(body.path, repair.psn, body.via.front());
    repair.connector_step = ConnectorStep::Joining;
    repair.at_ns = link_.host().now_ns() + kReopenToAnswerNs;
  }
  link_.host().tend_soon();
  return true;
}

// A bring-up has ended: the queue pairs are made or at RTS, or it has failed.
void PathRepair::risen(BringUp& done) {
  CHECK(done.reopens() && done.over());
  const std::uint32_t index = done.path();
  const bool lacks = lacks_memory(done);
  if (lacks && done.outcome() == Errc::Ok) return register_the_rest(done);
  Repair& repair = repairs_[index];
  std::string why = "the peer's address does not answer";
  const bool rises = !lacks && take_memory(done, &why) && done.outcome() == Errc::Ok;
  if (done.unmade()) why = "no queue pairs could be made";
  link_.host().tend_soon();
  if (!link_.connector()) return answer_risen(index, done, rises ? "" : why);
  if (!rises) return give_up_try(index, why);
  if (repair.connector_step == ConnectorStep::Making) return ask(index);
  Path& path = link_.peer_link().paths()[index];
  const ProgressLoop::Guard guard(link_.context().loop);
  path.health.probe_failed = false;
  set_probe_target(path, done.paths().front());
  link_.peer_link().probe(path);
  repair.connector_step = ConnectorStep::Probing;
  repair.at_ns = link_.host().now_ns() + kReopenToAnswerNs;
}

// Acceptor: answers REOPEN. `why` says what was wrong; empty if nothing was.
void PathRepair::answer_risen(std::uint32_t index, const BringUp& done, const std::string& why) {
  Repair& repair = repairs_[index];
  const bool left = std::exchange(repair.left, false);
  if (repair.asked) {
    repair.acceptor_step = AcceptorStep::Asked;  // the connector has begun anew meanwhile
    return;
  }
  if (left) return end_left(index);
  if (!why.empty()) return refuse(repair.asked_now, why);
  Path& path = link_.peer_link().paths()[index];
  set_peer_windows(path.queue_pairs, done.paths().front());
  repair.acceptor_step = AcceptorStep::AwaitPathUp;
  Reopened answer{.path = static_cast<std::uint8_t>(index),
                  .epoch = path.health.epoch,
                  .result = Errc::Ok,
                  .text = "",
                  .ends = {describe_path(path, repair.psn, path.device->probe_target())}};
  if (path.ends.relayed) answer.via = {describe_hop(path, answer.ends.front())};
  answer.rail = static_cast<std::uint8_t>(path.rail);
  answer.card = path.device->cards();
  if (answer.card != link_.peer_link().paths().cards.of(path.rail)) {
    const ProgressLoop::Guard guard(link_.context().loop);
    link_.peer_link().change_card(path.rail, answer.card);
    rewriting_ = true;
  }
  link_.send(answer);
}

bool PathRepair::probe(std::uint32_t index) {
  CHECK(link_.connector() && repairs_[index].connector_step == ConnectorStep::Probing);
  Path& path = link_.peer_link().paths()[index];
  bool failed = false, through = false, black_hole = false;
  std::string why_dead;
  {
    const ProgressLoop::Guard guard(link_.context().loop);
    link_.peer_link().paths().drain_completions();
    failed = path.health.probe_failed;
    through = path.queue_pairs[0]->outstanding() == 0;
    black_hole = SendQueuePair::of(*path.queue_pairs[0]).full_packet_hangs();
    why_dead = relayed_.why_dead(index);
  }
  if (!why_dead.empty()) {
    give_up_try(index, why_dead);
    return false;
  }
  if (failed || link_.host().now_ns() >= repairs_[index].at_ns) {
    if (black_hole) {
      const ProgressLoop::Guard guard(link_.context().loop);
      ++path.health.black_holes;
    }
    give_up_try(index, black_hole ? black_hole_text(path) : "nothing gets through");
    return false;
  }
  if (!through) return true;
  admit(index);
  link_.send(PathUp{.path = static_cast<std::uint8_t>(index), .epoch = path.health.epoch});
  return false;
}

// Tells that the path is up. What stands in for a lost path is told when it does so for the first
// time, and with the return of the lost path.
void PathRepair::tell_admitted(const Path& path, std::uint64_t away_ns) {
  const std::string& peer = link_.identity().peer_host;
  PeerLog& log = link_.host().peer_log();
  const std::string over = !path.ends.relayed  ? path.device->name()
                           : path.over.empty() ? "other hosts"
                                               : hosts_named(path.over);
  const bool no_neighbour = link_.peer_link().reach().all_relayed() ||
                            (path.ends.relayed && link_.peer_link().paths()[0].ends.guessed);
  const bool first_way = no_neighbour && log.is_news(peer, over);
  const std::optional<std::string> meanwhile = log.end_of_loss(link_.peer_link(), path);
  const bool stands_in =
      (path.ends.relayed || path.tier != 0) && log.note_stand_in(link_.peer_link(), over);
  if (first_way || stands_in) LOG_INFO("peer {}: messages go over {}", peer, over);
  const char* const kind = path.ends.relayed ? "relayed path"
                           : path.tier == 0  ? "path"
                                             : "standby path";
  const char* const does = path.ends.relayed ? "carries messages"
                           : path.tier == 0  ? "is back"
                                             : "carries on";
  std::string rest = fmt::format("{} after {} ms", does, away_ns / kNsPerMs);
  if (meanwhile && !meanwhile->empty()) rest += "; meanwhile messages went over " + *meanwhile;
  const std::string begin = fmt::format("peer {}: {}", peer, kind);
  MESH_LOG(meanwhile ? LogLevel::Info : LogLevel::Detail, "{} {} {}", begin,
           path_text(path, begin.size() + 2 + rest.size()), rest);
}

// Notes that the path's ports are on one wire, if datagrams were to tell: its probe went through.
void PathRepair::note_cable(const Path& path) {
  const topo::WirePair pair{.local = path.rail, .peer = path.ends.peer_rail};
  CableProofs* const proofs = link_.host().cables();
  if (proofs == nullptr || path.ends.relayed || !topo::holds(link_.terms.cables.asked, pair))
    return;
  proofs->note_met(link_.terms.peer_ticket, std::span(&pair, 1));
}

void PathRepair::admit(std::uint32_t index) {
  CHECK(link_.peer_link().paths()[index].health.state == PathState::Down);
  Path& path = link_.peer_link().paths()[index];
  Repair& repair = repairs_[index];
  {
    const ProgressLoop::Guard guard(link_.context().loop);
    link_.peer_link().admit(path);
    note_admitted();
  }
  path.ends.guessed = false;
  note_cable(path);
  const std::uint64_t now_ns = link_.host().now_ns();
  tell_admitted(path, now_ns - repair.lost_at_ns);
  leave_better_ones(index);
  // Until at_ns a failure counts as one trouble with the last one, and the pause goes on growing.
  repair = {.at_ns = now_ns + kPathUpToSteadyNs,
            .backoff_ns = std::clamp(repair.backoff_ns * 2, kTryPauseMinNs, kReopenPauseMaxNs)};
}

bool PathRepair::on(const PortUp& body) {
  if (link_.state() != LinkState::Up) return true;
  const ProgressLoop::Guard guard(link_.context().loop);
  for (const Path& path : link_.peer_link().paths().all())
    if (path.ends.peer_rail == body.rail || path.ends.is_place()) try_now(path.index);
  link_.host().tend_soon();
  return true;
}

bool PathRepair::on(const PathUp& body) {
  if (link_.state() != LinkState::Up) return true;
  if (body.path >= link_.peer_link().paths().count()) return false;
  if (repairs_[body.path].acceptor_step != AcceptorStep::AwaitPathUp ||
      body.epoch != link_.peer_link().paths()[body.path].health.epoch)
    return true;
  admit(body.path);
  return true;
}

}  // namespace mesh::engine
