// Paths that stand by: when they are opened, what must be registered for that, and when they rest
// again.
#include "engine/data/standby_memory.h"
#include "engine/link/context.h"
#include "engine/link/link.h"
#include "engine/link/path_repair.h"
#include "src/base/check.h"
#include "src/base/log.h"

#include <algorithm>
#include <iterator>

namespace mesh::engine {

namespace {
// Each tier is tried so much later than the one before: one that works is up before the next one
// begins, and one that is dead holds up nobody.
constexpr std::uint64_t kTierPauseNs = 50'000'000;
// For each answer of a host on the way: its kernel may ask for an address three times.
constexpr std::uint64_t kChainBoundNs = 10'000'000'000;
// How often it is looked whether a link has sent enough for a path beside the primary ones.
constexpr std::uint64_t kBesideLookNs = 100'000'000;
constexpr std::uint64_t kBesideAgainNs = 10'000'000'000;  // at last, where there is no way
}  // namespace

// Connector, holding the token; no path is up. Not before all fences are over: until then the peer
// may take a path for one that is up.
void PathRepair::call_standby(std::uint64_t now_ns) {
  PeerLink& peer_link = link_.peer_link();
  if (!link_.connector() || peer_link.fencing()) return;
  for (std::uint32_t i = 0; i < peer_link.path_count(); ++i) {  // primary ones rest if relayed
    Path& path = peer_link.path(i);
    if (path.health.state != PathState::Resting) continue;
    peer_link.call(path);
    const std::uint32_t before =
        peer_link.all_relayed() || path.tier == 0 ? path.tier : path.tier - 1;
    repairs_[i] = {.at_ns = now_ns + before * kTierPauseNs,
                   .backoff_ns = kFirstBackoffNs,
                   .lost_at_ns = stalled_since_ns_};
    link_.host().tend_at(repairs_[i].at_ns);
  }
}

void PathRepair::call_beside() {
  PeerLink& peer_link = link_.peer_link();
  if (!link_.connector() || !peer_link.beside()) return;
  const std::uint32_t index = peer_link.direct_count();
  const std::uint64_t now_ns = link_.host().now_ns();
  const ProgressLoop::Guard guard(link_.context().loop);
  if (peer_link.path(index).health.state != PathState::Resting) return;
  std::uint64_t carried = 0;
  for (std::uint32_t i = 0; i < index; ++i) carried += peer_link.path(i).bulk_posted;
  const std::uint64_t again_ns = repairs_[index].at_ns;  // 0: it was never tried
  if (carried < link_.host().options().both_ways_bytes || now_ns < again_ns)
    return link_.host().tend_at(std::max(now_ns + kBesideLookNs, again_ns));
  peer_link.call(peer_link.path(index));
  repairs_[index] = {.at_ns = now_ns,
                     .backoff_ns = std::max(repairs_[index].backoff_ns, kFirstBackoffNs),
                     .lost_at_ns = now_ns};
}

// Nobody misses it. Who else takes part may not be known yet.
void PathRepair::leave_beside(std::uint32_t index, const std::string& why) {
  LOG_DETAIL("peer {}: no way round beside its cable: {}", link_.identity().peer_host, why);
  const ProgressLoop::Guard guard(link_.context().loop);
  link_.peer_link().let_rest(link_.peer_link().path(index));
  const std::uint64_t pause_ns = std::min(2 * repairs_[index].backoff_ns, kBesideAgainNs);
  repairs_[index] = {.at_ns = link_.host().now_ns() + pause_ns, .backoff_ns = pause_ns};
}

// Acceptor: a way round beside the cable is lost, or a try to open it has failed, and the connector
// asks for no other.
bool PathRepair::is_unasked_beside(std::uint32_t index) const {
  const Repair& repair = repairs_[index];
  return !link_.connector() && link_.peer_link().is_beside(index) && repair.step == Step::Waiting &&
         !repair.asked;
}

// Nobody misses it here either; REOPEN calls it again. False in any case: nothing is to be done.
bool PathRepair::rest_beside(std::uint32_t index) {
  const ProgressLoop::Guard guard(link_.context().loop);
  link_.peer_link().let_rest(link_.peer_link().path(index));
  repairs_[index] = {};
  return false;
}

// The connector finds a route and asks each host of it for the queue pairs of its part (CHAIN,
// CHAINED). Then the path is opened as any other (REOPEN, REOPENED), except that each end connects
// to the host next to it; before the connector's do so, the hosts on the way are told their
// neighbours (JOIN, JOINED). False in any case: what is awaited wakes us.
bool PathRepair::begin_chains(std::uint32_t index) {
  auto need = RelayedPaths::Need::Link;
  {
    const ProgressLoop::Guard guard(link_.context().loop);
    if (link_.peer_link().is_beside(index) && !link_.peer_link().stalled())
      need = RelayedPaths::Need::Gain;
  }
  std::string why;
  if (!relayed_.ask(index, need, &why)) {
    need == RelayedPaths::Need::Link ? give_up_try(index, why) : leave_beside(index, why);
    return false;
  }
  Repair& repair = repairs_[index];
  repair.step = Step::Chaining;
  repair.at_ns = link_.host().now_ns() + kChainBoundNs;
  link_.host().tend_at(repair.at_ns);
  return false;
}

// True: soon again; the chains are on to the next step, or the try is given up.
bool PathRepair::tend_chains(std::uint32_t index) {
  const RelayedChains* const chains = relayed_.chains(index);
  const Step step = repairs_[index].step;
  if (chains == nullptr) return false;
  if (chains->step() == RelayedChains::Step::Broken) {
    give_up_try(index, std::string(chains->why()));
    return true;
  }
  if (step == Step::Chaining && chains->step() == RelayedChains::Step::Made) {
    if (link_.bring_up() != nullptr) return true;
    relayed_.take_addresses(index);
    make(index);
    return true;
  }
  if (step != Step::Joining || chains->step() != RelayedChains::Step::Joined) return false;
  repairs_[index].step = Step::Answered;
  return true;
}

// A better path carries the link. False in any case: there is nothing to come back for.
bool PathRepair::let_rest(std::uint32_t index) {
  const Step step = repairs_[index].step;
  if (step == Step::Making || step == Step::Rising) return false;  // its end wakes us
  Path& path = link_.peer_link().path(index);
  CHECK(path.tier != 0);
  const ProgressLoop::Guard guard(link_.context().loop);
  link_.peer_link().let_rest(path);
  relayed_.let_rest(index);
  repairs_[index] = {};
  return false;
}

// A path that stands in was admitted. The better ones keep their pauses, which grow with each
// failure: one that passes its probes and fails under load would take the link from it again and
// again.
void PathRepair::leave_better_ones(std::uint32_t index) {
  const std::uint64_t now_ns = link_.host().now_ns();
  const std::uint32_t tier = link_.peer_link().path(index).tier;
  for (std::uint32_t i = 0; i < index; ++i) {
    Repair& better = repairs_[i];
    if (link_.peer_link().path(i).tier == tier || better.step != Step::Waiting) continue;
    better.at_ns = std::max(better.at_ns, now_ns + better.backoff_ns);
  }
}

// All paths of a tier have their keys in the same rows, so they are on all of its rails before the
// first of them is up. Null: they are.
std::unique_ptr<StandbyMemory> PathRepair::memory_for(const Path& path) const {
  const PeerLink& peer_link = link_.peer_link();
  std::vector<std::uint32_t> rails;
  for (std::uint32_t i = 0; i < peer_link.path_count(); ++i) {
    if (peer_link.path(i).tier == path.tier) rails.push_back(peer_link.path(i).rail);
  }
  std::sort(rails.begin(), rails.end());
  rails.erase(std::unique(rails.begin(), rails.end()), rails.end());
  std::vector<std::uint32_t> missing;
  std::set_difference(rails.begin(), rails.end(), peer_link.rails().begin(),
                      peer_link.rails().end(), std::back_inserter(missing));
  if (missing.empty()) return nullptr;
  return std::make_unique<StandbyMemory>(*link_.context().registrations, peer_link,
                                         std::move(missing));
}

// What the bring-up has registered belongs to the link now. False: a rail has refused.
bool PathRepair::take_memory(const BringUp& done, std::string* why) {
  if (done.memory() == nullptr) return true;
  if (done.memory()->complete() && done.memory()->take_over(link_.peer_link()).ok()) return true;
  *why = fmt::format("memory could not be registered on {}",
                     link_.peer_link().path(done.indices().front()).lane->name());
  return false;
}

}  // namespace mesh::engine
