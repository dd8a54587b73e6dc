// Standby paths: opens them, registers memory for that, and lets them rest again. Also opens paths
// over other hosts.
#include "engine/data/standby_memory.h"
#include "engine/link/context.h"
#include "engine/link/link.h"
#include "engine/link/path_repair.h"
#include "engine/link/test_hooks.h"
#include "src/base/check.h"
#include "src/base/log.h"
#include "src/base/timeouts.h"

#include <algorithm>
#include <iterator>

namespace mesh::engine {

// Returns true until the peer has said of each lost path that it has left it.
bool PathRepair::peer_may_use_one() const noexcept {
  const auto paths = link_.peer_link().paths().all();
  return std::any_of(paths.begin(), paths.end(), [this](const Path& path) {
    return path.health.state == PathState::Quarantined && !repairs_[path.index].peer_left;
  });
}

// Connector: calls standby paths when no path is up, but not while the peer may take one for up. A
// fence may wait a minute for the peer's device. The caller holds the progress lock.
void PathRepair::call_standby(std::uint64_t now_ns) {
  PeerLink& peer_link = link_.peer_link();
  if (!link_.connector() || peer_may_use_one()) return;
  for (std::uint32_t i = 0; i < peer_link.paths().count(); ++i) {  // primary ones rest if relayed
    Path& path = peer_link.paths()[i];
    if (path.health.state != PathState::Standby) continue;
    peer_link.paths().call(path);
    const std::uint32_t before =
        peer_link.reach().all_relayed() || path.tier == 0 ? path.tier : path.tier - 1;
    repairs_[i] = {.at_ns = now_ns + before * kTierToNextNs,
                   .backoff_ns = kTryPauseMinNs,
                   .lost_at_ns = stalled_since_ns_};
    link_.host().tend_at(repairs_[i].at_ns);
  }
}

namespace {
// The rail of a path beside the primary ones counts as busy if other links have sent more directly
// over it than this part of what went over the primary paths.
constexpr std::uint64_t kBusyPart = 8;

// Returns the bytes of large messages that other links of the communicator have sent directly over
// a rail. The caller holds the progress lock.
std::uint64_t sent_directly(const Link& but, std::uint32_t rail) {
  std::uint64_t bytes = 0;
  for (const auto& link : but.context().links) {
    if (link.get() == &but || !link->has_peer_link()) continue;
    for (const Path& path : link->peer_link().paths().all())
      if (path.rail == rail && !path.ends.relayed) bytes += path.bulk_posted;
  }
  return bytes;
}
}  // namespace

// Opens the path beside the primary ones if its rail is idle. If the hosts of a ring send in both
// directions, no cable is idle, and bytes that go the long way take the place of others.
void PathRepair::call_beside() {
  PeerLink& peer_link = link_.peer_link();
  if (!link_.connector() || !peer_link.paths().has_beside()) return;
  const std::uint32_t index = peer_link.paths().direct_count();
  const std::uint64_t now_ns = link_.host().now_ns();
  const ProgressLoop::Guard guard(link_.context().loop);
  if (peer_link.paths()[index].health.state != PathState::Standby) return;
  std::uint64_t carried = 0;
  for (std::uint32_t i = 0; i < index; ++i) carried += peer_link.paths()[i].bulk_posted;
  const std::uint64_t again_ns = repairs_[index].at_ns;  // 0: it was never tried
  if (carried < hooks_of(link_.host().options()).both_ways_bytes || now_ns < again_ns ||
      sent_directly(link_, peer_link.paths()[index].rail) > carried / kBusyPart)
    return link_.host().tend_at(std::max(now_ns + kLookToNextNs, again_ns));
  peer_link.paths().call(peer_link.paths()[index]);
  repairs_[index] = {.at_ns = now_ns,
                     .backoff_ns = std::max(repairs_[index].backoff_ns, kTryPauseMinNs),
                     .lost_at_ns = now_ns};
}

// Lets a path beside the primary ones rest until a later try. Nobody misses it, and hosts that
// could carry it may not be known yet.
void PathRepair::leave_beside(std::uint32_t index, const std::string& why) {
  LOG_DETAIL("peer {}: the path the other way round the ring is not opened: {}",
             link_.identity().peer_host, why);
  const ProgressLoop::Guard guard(link_.context().loop);
  link_.peer_link().paths().let_stand_by(link_.peer_link().paths()[index]);
  const std::uint64_t pause_ns = std::min(2 * repairs_[index].backoff_ns, kReopenPauseMaxNs);
  repairs_[index] = {.at_ns = link_.host().now_ns() + pause_ns, .backoff_ns = pause_ns};
}

// Acceptor: returns true if a path beside the primary ones is lost, or a try to open it has failed,
// and the connector has asked for no other try.
bool PathRepair::is_unasked_beside(std::uint32_t index) const {
  const Repair& repair = repairs_[index];
  return !link_.connector() && link_.peer_link().paths().is_beside(index) &&
         repair.acceptor_step == AcceptorStep::AwaitReopen && !repair.asked;
}

// Acceptor: lets such a path rest; REOPEN calls it again. Returns false: nothing is left to do.
bool PathRepair::let_beside_stand_by(std::uint32_t index) {
  const ProgressLoop::Guard guard(link_.context().loop);
  link_.peer_link().paths().let_stand_by(link_.peer_link().paths()[index]);
  repairs_[index] = {};
  return false;
}

// The connector finds a route and asks each host of it for the queue pairs of its part (CHAIN,
// CHAINED). Then the path is opened as any other (REOPEN, REOPENED), except that each end connects
// to the host next to it; before the connector's queue pairs connect, the hosts on the way are told
// their neighbours (JOIN, JOINED). Returns false, because the answers wake us.
bool PathRepair::begin_chains(std::uint32_t index) {
  auto need = RelayedPaths::Need::Message;
  {
    const ProgressLoop::Guard guard(link_.context().loop);
    const PathSet& paths = link_.peer_link().paths();
    if (!paths.stalled())
      need = paths.is_beside(index) ? RelayedPaths::Need::Gain : RelayedPaths::Need::Spare;
  }
  std::string why;
  if (!relayed_.ask(index, need, &why)) {
    if (need == RelayedPaths::Need::Gain)
      leave_beside(index, why);
    else
      give_up_try(index, why);
    if (relayed_.has_other_way(index)) end_first_pause(index + 1);
    return false;
  }
  Repair& repair = repairs_[index];
  repair.connector_step = ConnectorStep::Chaining;
  repair.at_ns = link_.host().now_ns() + kReopenToAnswerNs;
  link_.host().tend_at(repair.at_ns);
  return false;
}

// Connector: has a path that waits for its first try since it was called, or was lost, tried at
// once.
void PathRepair::end_first_pause(std::uint32_t index) {
  if (index == repairs_.size()) return;
  Repair& repair = repairs_[index];
  const ProgressLoop::Guard guard(link_.context().loop);
  const bool waits = link_.peer_link().paths()[index].health.state == PathState::Down &&
                     repair.connector_step == ConnectorStep::Waiting;
  if (!waits || repair.backoff_ns != kTryPauseMinNs) return;
  repair.at_ns = std::min(repair.at_ns, link_.host().now_ns());
  link_.host().tend_soon();
}

// Returns true, to be called again soon, if the chains are on to the next step or the try is given
// up.
bool PathRepair::tend_chains(std::uint32_t index) {
  const RelayedChains* const chains = relayed_.chains(index);
  const ConnectorStep step = repairs_[index].connector_step;
  if (chains == nullptr) return false;
  if (chains->step() == RelayedChains::Step::Broken) {
    give_up_try(index, std::string(chains->why()));
    return true;
  }
  if (step == ConnectorStep::Chaining && chains->step() == RelayedChains::Step::Made) {
    make(index);
    return true;
  }
  if (step != ConnectorStep::Joining || chains->step() != RelayedChains::Step::Joined) return false;
  repairs_[index].connector_step = ConnectorStep::Reopened;
  return true;
}

// Lets a path rest because a better one carries the link. Returns false: nothing is left to do.
bool PathRepair::let_stand_by(std::uint32_t index) {
  if (repairs_[index].in_bring_up()) return false;  // the bring-up's end wakes us
  say_left(index, "a better path is up");
  Path& path = link_.peer_link().paths()[index];
  CHECK(path.tier != 0 || path.ends.relayed);
  const ProgressLoop::Guard guard(link_.context().loop);
  link_.peer_link().paths().let_stand_by(path);
  relayed_.let_stand_by(index);
  repairs_[index] = {};
  return false;
}

// Called when a path that stands in was admitted. Better paths keep their pauses, which grow with
// each failure: one that passes its probes and fails under load would take the link again and
// again.
void PathRepair::leave_better_ones(std::uint32_t index) {
  const std::uint64_t now_ns = link_.host().now_ns();
  const std::uint32_t tier = link_.peer_link().paths()[index].tier;
  for (std::uint32_t i = 0; i < index; ++i) {
    Repair& better = repairs_[i];
    if (link_.peer_link().paths()[i].tier == tier ||
        better.connector_step != ConnectorStep::Waiting)
      continue;
    better.at_ns = std::max(better.at_ns, now_ns + better.backoff_ns);
  }
}

// Returns the memory to register before a path is up. A CTS entry has the keys of all paths of a
// tier, so memory is registered on all the tier's rails before its first path is up. Null if it is.
std::unique_ptr<StandbyMemory> PathRepair::memory_for(const Path& path) const {
  const PeerLink& peer_link = link_.peer_link();
  std::vector<std::uint32_t> rails;
  for (const Path& other : peer_link.paths().all()) {
    if (other.tier == path.tier) rails.push_back(other.rail);
  }
  std::sort(rails.begin(), rails.end());
  rails.erase(std::unique(rails.begin(), rails.end()), rails.end());
  std::vector<std::uint32_t> missing;
  std::set_difference(rails.begin(), rails.end(), peer_link.paths().rails().begin(),
                      peer_link.paths().rails().end(), std::back_inserter(missing));
  if (missing.empty()) return nullptr;
  return std::make_unique<StandbyMemory>(*link_.context().registrations, peer_link,
                                         std::move(missing));
}

// Returns true if NCCL has registered memory that the bring-up did not know.
bool PathRepair::lacks_memory(const BringUp& done) const {
  return done.memory() != nullptr && done.memory()->complete() &&
         !done.memory()->covers(link_.peer_link());
}

void PathRepair::register_the_rest(BringUp& done) {
  link_.host().tend_soon();
  link_.begin_bring_up(
      {.paths = done.paths(),
       .indices = done.indices(),
       .settings = link_.settings(),
       .reopens = true,
       .memory = std::make_unique<StandbyMemory>(done.give_memory(), link_.peer_link()),
       .connected = true});
}

// Gives the link what the bring-up has registered. Returns false if a rail has refused.
bool PathRepair::take_memory(const BringUp& done, std::string* why) {
  if (done.memory() == nullptr) return true;
  if (done.memory()->complete() && done.memory()->take_over(link_.peer_link()).ok()) return true;
  *why = fmt::format("memory could not be registered on {}",
                     link_.peer_link().paths()[done.indices().front()].device->name());
  return false;
}

}  // namespace mesh::engine
