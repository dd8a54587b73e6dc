// The end of a world: contexts are closed in some order, everything must be gone, and nothing may
// have been written that nobody asked for.

#include "tests/sim/world.h"

namespace mesh::sim {
namespace {
constexpr std::uint64_t kGoneNs = 100'000'000'000;
constexpr std::uint64_t kLeapNs = 1'000'000;

// Returns the host's NIC that a path names as "n0:1".
soft::NicRef nic_of(const soft::FabricFile& fabric, std::size_t host, const std::string& rail) {
  const std::string name = rail.substr(0, rail.find(':'));
  const std::vector<soft::NicSpec>& nics = fabric.hosts[host].nics;
  const auto found = std::find_if(nics.begin(), nics.end(),
                                  [&name](const soft::NicSpec& nic) { return nic.name == name; });
  return {static_cast<int>(host), static_cast<int>(found - nics.begin())};
}

// Returns 3 for the peer "h3".
std::size_t number_of(const PeerSnapshot& peer) { return std::stoul(peer.peer.substr(1)); }

bool has_both(const soft::LinkSpec& link, const soft::NicRef& a, const soft::NicRef& b) {
  const auto has = [&link](const soft::NicRef& nic) {
    return std::any_of(link.ends.begin(), link.ends.end(), [&nic](const soft::NicRef& end) {
      return end.host == nic.host && end.nic == nic.nic;
    });
  };
  return has(a) && has(b);
}
}  // namespace

void World::end() {
  check_counters();
  check_paths();
  check_cables();
  check_ways();
  std::vector<std::size_t> order(contexts_.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random_.below(i)]);
  for (const std::size_t number : order) {
    if (contexts_[number].context == nullptr) continue;
    while (!runs(processes_[contexts_[number].process]))
      clock_ns_.fetch_add(kLeapNs, std::memory_order_relaxed);
    close_one(number);
  }
  const std::uint64_t until_ns = clock_ns_.load(std::memory_order_relaxed) + kGoneNs;
  while (!quiet() && clock_ns_.load(std::memory_order_relaxed) < until_ns) {
    if (sweep()) {
      clock_ns_.fetch_add(kLeapNs / 100, std::memory_order_relaxed);
    } else {
      jump();
    }
  }
  for (const auto& channel : channels_) channel->check_memory();
  for (const auto& group : groups_) group->check_memory();
  check_nothing_left();
}

bool World::quiet() const {
  for (std::size_t i = 0; i < processes_.size(); ++i) {
    if (!processes_[i].alive || processes_[i].engine == nullptr) continue;
    const EngineStats stats = processes_[i].engine->stats();
    if (stats.contexts + stats.links + control_.connections(i) != 0) return false;
    if (processes_[i].engine->carries_for_others()) return false;  // last counts are on their way
  }
  return true;
}

// Checks the engines' counters before the contexts that are left are closed.
void World::check_counters() {
  std::uint64_t truncated = 0, errors = 0, late = 0;
  for (const auto& channel : channels_) {
    truncated += channel->truncated();
    tally_.failed += channel->sender().failed + channel->receiver().failed;
  }
  for (const Process& process : processes_) {
    if (!process.alive || process.engine == nullptr) continue;
    const EngineStats stats = process.engine->stats();
    errors += stats.errors;
    late += stats.late_announcements;
  }
  if (scenario_.options.level >= Level::Ends) return;
  if (late != 0)
    trace_.violate(fmt::format("{} announcements came late in a world without failures", late));
  // A path that was guessed ends with errors, and its messages go another way.
  if (errors != truncated && !scenario_.options.any_fabric)
    trace_.violate(fmt::format("{} errors counted, {} requests were truncated", errors, truncated));
}

// Checks that no path failed where no fault was planned: a full ring makes its users wait and loses
// nothing. Worlds whose writes overtake one another are left out: a write that is held back may
// outlast the tries of a short time-out, which loses its path by right. Hosts that share a subnet
// and no cable have paths by their ports' places, which cannot come up.
void World::check_paths() {
  if (!scenario_.options.relays || !scenario_.faults.empty() || left_) return;
  if (scenario_.out_of_order_ns != 0) return;
  for (std::size_t process = 0; process < processes_.size(); ++process) {
    const std::size_t host = scenario_.processes[process];
    for (const PeerSnapshot& peer : processes_[process].engine->snapshot().peers) {
      const bool by_place = scenario_.options.shared && !scenario_.cabled(host, number_of(peer));
      for (const PathSnapshot& path : peer.paths) {
        if (path.failures != 0 && !(by_place && path.routes.empty()))
          trace_.violate(
              fmt::format("path {} was lost without a fault: {}", path.name, path.last_cause));
      }
    }
  }
}

// Checks that direct paths to hosts that are cabled lead over cables, where no address tells these.
// Paths over other hosts name no addresses. A host that is slow may answer too late.
void World::check_cables() {
  if (!scenario_.options.shared || !scenario_.healthy() || left_) return;
  const auto& links = fabric_.links;
  const auto is_cable = [](const soft::LinkSpec& link) {
    return link.ends.size() == 2 && link.routers.empty();
  };
  if (!std::all_of(links.begin(), links.end(), is_cable)) return;
  for (std::size_t process = 0; process < processes_.size(); ++process) {
    const std::size_t host = scenario_.processes[process];
    for (const PeerSnapshot& peer : processes_[process].engine->snapshot().peers) {
      const std::size_t other = number_of(peer);
      if (host == other || !scenario_.cabled(host, other)) continue;
      for (const PathSnapshot& path : peer.paths) {
        std::istringstream words(path.name);
        std::string own, own_address, arrow, its, its_address;
        if (!(words >> own >> own_address >> arrow >> its >> its_address)) continue;
        const soft::NicRef a = nic_of(scenario_.fabric, host, own),
                           b = nic_of(scenario_.fabric, other, its);
        if (std::none_of(links.begin(), links.end(),
                         [&](const soft::LinkSpec& link) { return has_both(link, a, b); }))
          trace_.violate(
              fmt::format("path {} from host {} to {} is no cable", path.name, host, other));
      }
    }
  }
}

// Checks that channels without a way have failed, and that a line names the peer. What they fail
// with is judged when it happens.
void World::check_ways() {
  for (const auto& channel : channels_) {
    const ChannelPlan& plan = channel->plan();
    if (plan.way != Way::None) continue;
    if (channel->carried()) trace_.violate(channel->describe() + ": carried without a way");
    const auto named = [this](std::size_t context) {
      return trace_.warned(fmt::format("peer h{}: ", contexts_[context].host));
    };
    if (!named(plan.from) && !named(plan.to))
      trace_.violate(channel->describe() + ": failed without a line that names its peer");
  }
}

std::string World::what_is_left(const Process& process) const {
  const EngineStats stats = process.engine == nullptr ? EngineStats{} : process.engine->stats();
  const CountingProvider::Alive& alive = process.provider->alive();
  if (stats.contexts + stats.links + stats.channels + stats.queue_pairs + stats.registrations ==
          0 &&
      alive.mrs == 0 && alive.qps == 0 && alive.cqs == 0 && alive.pds == 0) {
    return "";
  }
  return fmt::format(
      "{} contexts, {} links, {} channels, {} queue pairs, {} registrations; of verbs objects {} "
      "mr, {} qp, {} cq, {} pd",
      stats.contexts, stats.links, stats.channels, stats.queue_pairs, stats.registrations,
      alive.mrs, alive.qps, alive.cqs, alive.pds);
}

void World::check_nothing_left() {
  for (std::size_t i = 0; i < processes_.size(); ++i) {
    const Process& process = processes_[i];
    const std::string name = scenario_.name_of(i);
    std::uint64_t rnr = 0;
    for (const std::string& nic : scenario_.hosts[scenario_.processes[i]].nics)
      rnr += process.provider->under().counters(nic).rnr_events;
    if (rnr != 0) trace_.violate(fmt::format("host {}: {} receiver-not-ready events", name, rnr));
    if (!process.alive) continue;
    if (const std::string left = what_is_left(process); !left.empty())
      trace_.violate(fmt::format("host {} leaks: {}", name, left));
    if (const std::size_t open = control_.connections(i); open != 0) {
      trace_.violate(fmt::format("host {} leaves {} control connections", name, open));
    }
  }
}

}  // namespace mesh::sim
