#include "src/topo/ways.h"

#include <algorithm>
#include <array>
#include <optional>
#include <tuple>

namespace mesh::topo {

namespace {
constexpr std::size_t kKinds = static_cast<std::size_t>(WayKind::Sockets) + 1;
// A device below a switch meets its downstream port, the upstream port, and another downstream
// port. One bridge alone is a port of the host itself.
constexpr int kBridgesOfOneSwitch = 3;

// A way up to the part that the search has reached.
struct Trail {
  WayKind kind = WayKind::Switch;
  double gbps = kWide;
  bool at_most = false;
  int bridges = 0;
  int hops = 0;
  bool is_better_than(const Trail& other) const {
    return std::tuple(gbps, !at_most, other.hops) > std::tuple(other.gbps, !other.at_most, hops);
  }
};

WayKind kind_of_bridges(int bridges) {
  if (bridges < 2) return WayKind::HostBridge;
  return bridges <= kBridgesOfOneSwitch ? WayKind::Switch : WayKind::Switches;
}

// Returns the kind of a way that goes on from `from` to `to`. Below the host bridge the kind is
// known only where the way ends at a device: until then the bridges are counted.
WayKind step_kind(const Part& from, const Part& to, const Trail& trail) {
  if (to.kind == PartKind::Bridge) return trail.kind;
  if (to.kind == PartKind::Device)
    return trail.kind > WayKind::Switches ? trail.kind : kind_of_bridges(trail.bridges);
  WayKind least = WayKind::HostBridge;
  if (to.kind == PartKind::HostBridge && from.kind == PartKind::Memory) least = WayKind::Memory;
  if (to.kind == PartKind::Memory && from.kind == PartKind::Package) least = WayKind::Package;
  if (to.kind == PartKind::Package && from.kind == PartKind::Package) least = WayKind::Sockets;
  return std::max(trail.kind, least);
}

// The best trails to each part, one for each kind, because the widest of one kind may go on where a
// nearer one does not.
class Search {
 public:
  Search(const HostParts& host, std::size_t from) : host_(host), trails_(host.parts.size()) {
    trails_[from][0] = Trail{};
    const std::size_t rounds = host.parts.size();  // no way visits a part twice
    for (std::size_t round = 0; round < rounds && widen(); ++round) {
    }
  }

  std::optional<Trail> best(std::size_t to) const {
    for (const std::optional<Trail>& each : trails_[to]) {
      if (each) return each;
    }
    return std::nullopt;
  }

 private:
  using Kinds = std::array<std::optional<Trail>, kKinds>;

  bool widen() {
    bool changed = false;
    for (const Joint& joint : host_.joints) {
      changed |= go(joint.a, joint.b, joint.gbps);
      changed |= go(joint.b, joint.a, joint.gbps);
    }
    return changed;
  }

  bool go(std::size_t from, std::size_t to, double gbps) {
    bool changed = false;
    for (const std::optional<Trail>& each : Kinds(trails_[from])) {
      if (!each) continue;
      Trail next = *each;
      if (host_.parts[to].kind == PartKind::Bridge) ++next.bridges;
      next.kind = step_kind(host_.parts[from], host_.parts[to], next);
      if (gbps > 0) next.gbps = std::min(next.gbps, gbps);
      next.at_most |= gbps <= 0;
      ++next.hops;
      std::optional<Trail>& known = trails_[to][static_cast<std::size_t>(next.kind)];
      if (known && !next.is_better_than(*known)) continue;
      known = next;
      changed = true;
    }
    return changed;
  }

  const HostParts& host_;
  std::vector<Kinds> trails_;
};

bool is_end(const Part& part) {
  return part.kind == PartKind::Package || part.kind == PartKind::Memory || part.gpu;
}
}  // namespace

const char* kind_text(WayKind kind) {
  switch (kind) {
    case WayKind::Switch: return "one switch";
    case WayKind::Switches: return "several switches";
    case WayKind::HostBridge: return "host bridge";
    case WayKind::Memory: return "two host bridges";
    case WayKind::Package: return "two memory nodes";
    case WayKind::Sockets: return "two sockets";
  }
  return "?";
}

const char* nccl_class(WayKind kind) {
  switch (kind) {
    case WayKind::Switch: return "PIX";
    case WayKind::Switches: return "PXB";
    case WayKind::HostBridge:
    case WayKind::Memory: return "PHB";
    case WayKind::Package:
    case WayKind::Sockets: return "SYS";
  }
  return "?";
}

std::vector<Way> ways_from(const HostParts& host, std::size_t from) {
  std::vector<Way> ways;
  if (from >= host.parts.size()) return ways;
  const Search search(host, from);
  for (std::size_t to = 0; to < host.parts.size(); ++to) {
    if (to == from || !is_end(host.parts[to])) continue;
    const std::optional<Trail> trail = search.best(to);
    if (!trail) continue;
    ways.push_back({.to = to,
                    .kind = trail->kind,
                    .gbps = trail->gbps < kWide ? trail->gbps : 0,
                    .at_most = trail->at_most});
  }
  return ways;
}

std::size_t part_named(const HostParts& host, const std::string& name) {
  const auto found = std::find_if(host.parts.begin(), host.parts.end(),
                                  [&name](const Part& part) { return part.name == name; });
  return found == host.parts.end() ? SIZE_MAX
                                   : static_cast<std::size_t>(found - host.parts.begin());
}

}  // namespace mesh::topo
