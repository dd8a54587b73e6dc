#include "tests/e2e/shape.h"

#include <nlohmann/json.hpp>

#include <charconv>

namespace mesh::e2e {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kNobody = std::string::npos;

std::string text_of(const Json& value) {
  return value.is_string() ? value.get<std::string>() : std::string();
}

std::vector<std::string> host_names(const Json& root) {
  std::vector<std::string> names;
  for (const Json& host : root.value("hosts", Json::array())) {
    if (host.is_object()) names.push_back(text_of(host.value("name", Json())));
  }
  return names;
}

// Returns the rank of an end's host: "a/mesh0" is an end of host a.
std::size_t rank_of(const Json& end, const std::vector<std::string>& names) {
  const std::string text = text_of(end);
  const auto found = std::find(names.begin(), names.end(), text.substr(0, text.find('/')));
  return found == names.end() ? kNobody : static_cast<std::size_t>(found - names.begin());
}

// Adds a switch, or a cable as a switch of two ends.
void add_link(const Json& ends, const std::vector<std::string>& names, Shape& shape) {
  for (std::size_t i = 0; i < ends.size(); ++i) {
    for (std::size_t j = i + 1; j < ends.size(); ++j) {
      const std::size_t a = rank_of(ends[i], names);
      const std::size_t b = rank_of(ends[j], names);
      if (a != kNobody && b != kNobody && a != b) shape.join(a, b, shape.cables(a, b) + 1);
    }
  }
}

// Returns the routers that a link ends at.
std::vector<std::string> routers_of(const Json& ends, const std::vector<std::string>& all) {
  std::vector<std::string> found;
  for (const Json& end : ends) {
    const std::string name = text_of(end);
    if (std::find(all.begin(), all.end(), name) != all.end()) found.push_back(name);
  }
  return found;
}

// Two hosts behind one router reach each other by as many ways as the host with fewer has to it.
void add_router(const std::string& router, const Json& links, const std::vector<std::string>& names,
                Shape& shape) {
  std::vector<int> ways(names.size(), 0);
  for (const Json& link : links) {
    if (!link.is_object()) continue;
    const Json& ends = link.contains("switch") ? link["switch"] : link.value("ends", Json::array());
    if (routers_of(ends, {router}).empty()) continue;
    for (const Json& end : ends) {
      if (const std::size_t rank = rank_of(end, names); rank != kNobody) ++ways[rank];
    }
  }
  for (std::size_t a = 0; a < names.size(); ++a) {
    for (std::size_t b = a + 1; b < names.size(); ++b) {
      const int most = std::max(shape.cables(a, b), std::min(ways[a], ways[b]));
      if (most > 0) shape.join(a, b, most);
    }
  }
}

// Returns hosts that reach only their neighbours.
Shape chain(std::size_t world, bool closed) {
  Shape shape(world);
  for (std::size_t host = 0; host + 1 < world; ++host) shape.join(host, host + 1, 1);
  if (closed && world > 2) shape.join(world - 1, 0, 1);
  return shape;
}

bool fits(const Shape& wanted, const Shape& cluster, const std::vector<std::size_t>& chosen) {
  const std::size_t last = chosen.size() - 1;
  for (std::size_t other = 0; other < last; ++other) {
    if (chosen[other] == chosen[last]) return false;
    const int wants = wanted.cables(other, last);
    const int has = cluster.cables(chosen[other], chosen[last]);
    if (has < wants || (!wanted.connected() && has != 0)) return false;
  }
  return true;
}

// Returns the first choice in the order of ranks; empty: none. Each turn moves the last host on, or
// takes one away, or adds one.
std::vector<std::size_t> choose(const Shape& wanted, const Shape& cluster) {
  std::vector<std::size_t> chosen{0};
  while (!chosen.empty()) {
    if (chosen.back() == cluster.hosts()) {
      chosen.pop_back();
      if (!chosen.empty()) ++chosen.back();
    } else if (!fits(wanted, cluster, chosen)) {
      ++chosen.back();
    } else if (chosen.size() == wanted.hosts()) {
      return chosen;
    } else {
      chosen.push_back(0);
    }
  }
  return {};
}

Shape with_single_cables(const Shape& shape) {
  Shape single(shape.hosts());
  for (std::size_t a = 0; a < shape.hosts(); ++a) {
    for (std::size_t b = a + 1; b < shape.hosts(); ++b)
      single.join(a, b, std::min(shape.cables(a, b), 1));
  }
  return single;
}

}  // namespace

bool Shape::connected() const noexcept {
  return hosts_ < 2 ||
         std::any_of(cables_.begin(), cables_.end(), [](int cables) { return cables != 0; });
}

void Shape::join(std::size_t a, std::size_t b, int cables) {
  cables_[a * hosts_ + b] = cables_[b * hosts_ + a] = cables;
}

Result<Shape> Shape::of_fabric(const std::string& json, const std::vector<std::string>& wanted) {
  const Json root = Json::parse(json, nullptr, false);
  if (!root.is_object()) return Errc::InvalidArgument;
  const std::vector<std::string> names = wanted.empty() ? host_names(root) : wanted;
  if (names.empty()) return Errc::InvalidArgument;
  Shape shape(names.size());
  for (const Json& link : root.value("links", Json::array())) {
    for (const char* kind : {"ends", "switch"}) {
      if (link.is_object() && link.contains(kind)) add_link(link[kind], names, shape);
    }
  }
  for (const Json& router : root.value("routers", Json::array()))
    add_router(text_of(router), root.value("links", Json::array()), names, shape);
  return shape;
}

Result<Shape> Shape::of_cluster(const std::string& topology, std::size_t world, std::string& why) {
  const std::string_view name = topology;
  for (const std::string_view word : {"line", "ring"}) {
    if (!name.starts_with(word)) continue;
    std::size_t hosts = 0;
    std::from_chars(name.data() + word.size(), name.data() + name.size(), hosts);
    if (hosts == world) return chain(world, word == "ring");
    why =
        "MESH_TOPOLOGY is " + topology + ", but the world has " + std::to_string(world) + " ranks";
    return Errc::InvalidArgument;
  }
  const int cables = name.empty() ? INT_MAX : name == "pair2" || name == "triangle2" ? 2 : 1;
  Shape shape(world);
  for (std::size_t a = 0; a < world; ++a) {
    for (std::size_t b = a + 1; b < world; ++b) shape.join(a, b, cables);
  }
  return shape;
}

Placement place(const Shape& wanted, const Shape& cluster) {
  if (wanted.hosts() > cluster.hosts()) {
    return {{},
            "needs " + std::to_string(wanted.hosts()) + " hosts, here are " +
                std::to_string(cluster.hosts())};
  }
  Placement placement{choose(wanted, cluster), {}};
  if (!placement.ranks.empty()) return placement;
  if (!wanted.connected()) {
    placement.reason = "needs hosts that do not reach each other";
  } else if (!choose(with_single_cables(wanted), cluster).empty()) {
    placement.reason = "needs more than one cable between two hosts";
  } else {
    placement.reason =
        "needs " + std::to_string(wanted.hosts()) + " hosts of which more reach each other";
  }
  return placement;
}

}  // namespace mesh::e2e
