#include "tests/sim/loss_watch.h"

#include "tests/sim/channel_run.h"

namespace mesh::sim {
namespace {
// A FENCE that is not answered has 200 ms, and an address that does not answer 300 ms. The bar is
// half a second; hosts here are slow, too.
constexpr std::uint64_t kFencedNs = 1 * kSecond;
constexpr std::string_view kArrow = " -> ";        // in the name of a path
constexpr std::uint64_t kToldNs = 1 * kSecond;     // from a port's change until all know it
constexpr std::uint64_t kOpenedNs = 25 * kSecond;  // from a new card until all have opened it

// Returns when a port that goes down for that span has been up for so long that all know it.
std::uint64_t up_again_ns(const PortWatch::Span& span) {
  constexpr std::uint64_t kNeverNs = UINT64_MAX / 2;
  return span.duration_ns == 0 ? kNeverNs : span.begin_ns + span.duration_ns + kToldNs;
}
}  // namespace

std::string FenceWatch::see(std::size_t host, const EngineSnapshot& shot, std::uint64_t now_ns) {
  for (const PeerSnapshot& peer : shot.peers) {
    if (left_.contains(peer.peer)) continue;
    for (const PathSnapshot& path : peer.paths) {
      Lost& lost = lost_[fmt::format("{} {} {} {}", host, peer.peer, peer.sends, path.name)];
      // Without an open channel nobody waits, and a link that has failed fences none.
      const bool waits = path.quarantined > peer.spent_links;
      if (!waits || lost.failures != path.failures)
        lost = {.failures = path.failures, .since_ns = now_ns};
      lost.since_ns = std::max(lost.since_ns, excused_ns_);
      if (now_ns < lost.since_ns + kFencedNs) continue;
      return fmt::format("host {}: path {} is lost and not fenced in {} ms: {}", host, path.name,
                         kFencedNs / kMs, path.last_cause);
    }
  }
  return {};
}

bool CalmWatch::is_late(const std::string& what, bool up, const Look& look) {
  std::uint64_t& since_ns = not_up_since_.try_emplace(what, look.now_ns).first->second;
  since_ns = up ? look.now_ns : std::max(since_ns, calm_ns_);
  return look.now_ns >= since_ns + look.bound_ns;
}

std::string CalmWatch::see(std::size_t process, const EngineSnapshot& shot, const Look& look) {
  const std::size_t host = hosts_[process];
  const auto was_away = [&](const std::string& rail) { return cards_.contains({host, rail}); };
  for (const RailSnapshot& rail : shot.rails) {
    if (was_away(rail.name) && is_late(fmt::format("{} {}", process, rail.name), rail.active, look))
      return fmt::format("host {}: rail {} is not up {} ms after a new card has come", host,
                         rail.name, look.bound_ns / kMs);
  }
  for (const PeerSnapshot& peer : shot.peers) {
    for (const PathSnapshot& path : peer.paths) {
      if (!was_away(path.rail)) continue;
      const bool up = path.down + path.quarantined == 0 || peer.channels == 0;
      if (is_late(fmt::format("{} {} {} {}", process, peer.peer, peer.sends, path.name), up, look))
        return fmt::format("host {}: path {} is not up {} ms after a new card has come: {}", host,
                           path.name, look.bound_ns / kMs, path.last_cause);
    }
  }
  return {};
}

std::string CalmWatch::see_standby(std::size_t process, const EngineSnapshot& shot,
                                   const Look& look) {
  const std::size_t host = hosts_[process];
  const std::string self = fmt::format("h{}", host);
  if (!is_alone(self)) return {};
  auto& own = in_use_[self];
  own.clear();
  for (const PeerSnapshot& peer : shot.peers) {
    for (const PathSnapshot& path : peer.paths) {
      const std::uint64_t in_use = path.up + path.quarantined + path.down;
      if (peer.sends) {
        own[{peer.peer, path.name}] = in_use;
        continue;
      }
      const std::size_t arrow = path.name.find(kArrow);
      if (arrow == std::string::npos) continue;
      const std::string there = path.name.substr(arrow + kArrow.size()) + std::string(kArrow) +
                                path.name.substr(0, arrow);
      const auto& far = in_use_[peer.peer];
      const auto at = far.find({self, there});
      const bool rests = at == far.end() || in_use <= at->second || peer.channels == 0;
      if (is_late(fmt::format("{} standby {} {}", process, peer.peer, path.name), rests, look))
        return fmt::format(
            "host {}: path {} does not stand by {} ms after its peer has left it: {}", host,
            path.name, look.bound_ns / kMs, path.last_cause);
    }
  }
  return {};
}

// Returns whether a host is one process: a snapshot names hosts.
bool CalmWatch::is_alone(const std::string& name) const {
  return std::count_if(hosts_.begin(), hosts_.end(),
                       [&name](std::size_t host) { return fmt::format("h{}", host) == name; }) == 1;
}

void PortWatch::goes_down(const Port& port, const Span& span) {
  Downs& downs = downs_[port];
  if (span.begin_ns >= downs.up_ns) {
    ++downs.count;
    downs.told_by_ns = span.begin_ns + kToldNs;
  }
  downs.up_ns = std::max(downs.up_ns, up_again_ns(span));
}

void PortWatch::leaves(const Port& port, const Span& span) {
  Downs& downs = downs_[port];
  downs.up_ns = std::max(downs.up_ns, up_again_ns(span) + kOpenedNs);
}

std::string PortWatch::see(std::size_t process, const EngineSnapshot& shot,
                           std::uint64_t now_ns) const {
  for (const RailSnapshot& rail : shot.rails) {
    const auto at = downs_.find({hosts_[process], rail.name.substr(0, rail.name.find(':'))});
    if (at == downs_.end() || now_ns < at->second.told_by_ns) continue;
    if (rail.port_downs < at->second.count)
      return fmt::format(
          "rail {} has heard {} times that its port is down, "
          "which it was {} times",
          rail.name, rail.port_downs, at->second.count);
  }
  return {};
}

std::string LossWatch::see(ChannelRun& channel, std::uint64_t now_ns, std::uint64_t bound_ns) {
  for (Side* const side : {&channel.sender(), &channel.receiver()}) {
    const bool waits = !side->gone && channel.other(*side).gone && !side->open.empty();
    Oldest& oldest = oldest_[side];
    if (!waits || oldest.number != side->open.front().number)
      oldest = {.number = waits ? side->open.front().number : SIZE_MAX, .since_ns = now_ns};
    if (waits && now_ns >= oldest.since_ns + bound_ns)
      return channel.describe() + ": a request has outlived its host";
  }
  return {};
}

}  // namespace mesh::sim
