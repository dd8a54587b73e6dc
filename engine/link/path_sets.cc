#include "engine/link/path_sets.h"

#include "src/base/check.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <tuple>

namespace mesh::engine {

namespace {
template <typename Matches>
std::vector<WirePath> those_that(std::span<const WirePath> meet, const Matches& matches) {
  std::vector<WirePath> paths;
  std::copy_if(meet.begin(), meet.end(), std::back_inserter(paths), matches);
  return paths;
}

bool same_rails(const WirePath& a, const WirePath& b) {
  return a.connector_rail == b.connector_rail && a.acceptor_rail == b.acceptor_rail;
}

struct StandbyOrder {
  const std::vector<WireRail>& connector_rails;
  const std::vector<WireRail>& acceptor_rails;
  std::span<const WirePath> primary;
  std::size_t asked = 0;

  // Returns the sort key of a path; less is better.
  auto of(const WirePath& path) const {
    const auto shares = [&](const auto& shared) {
      return std::any_of(primary.begin(), primary.end(), shared) ? 1 : 0;
    };
    const int ends = shares([&](const WirePath& each) {
                       return same_cable(connector_rails, each.connector_rail, path.connector_rail);
                     }) +
                     shares([&](const WirePath& each) {
                       return same_cable(acceptor_rails, each.acceptor_rail, path.acceptor_rail);
                     });
    const std::uint32_t mbps = std::min(connector_rails[path.connector_rail].speed_mbps,
                                        acceptor_rails[path.acceptor_rail].speed_mbps);
    const std::size_t rails = connector_rails.size();
    return std::tuple(ends, UINT32_MAX - mbps, (path.connector_rail + rails - asked) % rails);
  }
};
}  // namespace

bool same_cable(const std::vector<WireRail>& rails, std::size_t a, std::size_t b) {
  if (a >= rails.size() || b >= rails.size()) return false;  // the index may be a peer's
  return a == b ||
         (rails[a].guid != 0 && rails[a].guid == rails[b].guid && rails[a].port == rails[b].port);
}

bool has_halves(std::span<const WirePath> paths, const std::vector<WireRail>& connector_rails,
                const std::vector<WireRail>& acceptor_rails) {
  const auto halves = [&](const WirePath& a, const WirePath& b) {
    return same_cable(connector_rails, a.connector_rail, b.connector_rail) ||
           same_cable(acceptor_rails, a.acceptor_rail, b.acceptor_rail);
  };
  for (std::size_t i = 0; i < paths.size(); ++i) {
    for (std::size_t other = i + 1; other < paths.size(); ++other)
      if (halves(paths[i], paths[other])) return true;
  }
  return false;
}

PathSets path_sets(std::span<const WirePath> meet, const std::vector<WireRail>& connector_rails,
                   const std::vector<WireRail>& acceptor_rails, const AskedRails& asked) {
  const auto from_asked = [&](const WirePath& path) {
    return same_cable(connector_rails, path.connector_rail, asked.rail);
  };
  const auto to_listened = [&](const WirePath& path) {
    return from_asked(path) && same_cable(acceptor_rails, path.acceptor_rail, asked.listened);
  };
  PathSets sets;
  if (asked.wish != RailsWish::All) sets.primary = those_that(meet, to_listened);
  if (asked.wish != RailsWish::All && sets.primary.empty())
    sets.primary = those_that(meet, from_asked);
  if (asked.wish != RailsWish::Asked && sets.primary.empty())
    sets.primary.assign(meet.begin(), meet.end());
  const auto first = [&](const auto& comes) {
    std::stable_partition(sets.primary.begin(), sets.primary.end(), comes);
  };
  first([&](const WirePath& path) { return path.connector_rail == asked.rail; });
  if (sets.primary.size() > kPathsMax) sets.primary.resize(kPathsMax);
  // Sorted after the choice: both sides must choose alike whatever they know of each other's ports.
  first([&](const WirePath& path) {
    return connector_rails[path.connector_rail].up != 0 &&
           acceptor_rails[path.acceptor_rail].up != 0;
  });
  if (asked.wish != RailsWish::Auto) return sets;
  const std::span<const WirePath> primary = sets.primary;
  sets.standby = those_that(meet, [primary](const WirePath& path) {
    return std::none_of(primary.begin(), primary.end(),
                        [&](const WirePath& each) { return same_rails(each, path); });
  });
  std::stable_sort(sets.standby.begin(), sets.standby.end(),
                   [order = StandbyOrder{connector_rails, acceptor_rails, primary, asked.rail}](
                       const WirePath& a, const WirePath& b) { return order.of(a) < order.of(b); });
  if (sets.standby.size() > kPathsMax - primary.size())
    sets.standby.resize(kPathsMax - primary.size());
  DCHECK(sets.primary.size() + sets.standby.size() <= kPathsMax);
  return sets;
}

PathKey key_of(std::span<const WirePath> primary) {
  PathKey key;
  key.reserve(primary.size());
  for (const WirePath& path : primary) key.emplace_back(path.connector_rail, path.acceptor_rail);
  std::sort(key.begin(), key.end());
  return key;
}

RailsWish rails_wish(std::string_view setting) {
  if (setting == "asked") return RailsWish::Asked;
  return setting == "all" ? RailsWish::All : RailsWish::Auto;
}

}  // namespace mesh::engine
