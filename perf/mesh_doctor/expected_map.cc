#include "perf/mesh_doctor/map.h"

#include "src/topo/pairing.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <sstream>
#include <utility>

namespace mesh::doctor {
namespace {

std::string host_of(const std::string& port) { return port.substr(0, port.find('/')); }

bool names_port(const std::string& word) {
  const std::size_t slash = word.find('/');
  return slash != std::string::npos && slash > 0 && slash + 1 < word.size();
}

// One expected pair and the places of its ends; an end has none if its host has no such rail.
struct Wanted {
  const ExpectedPair& names;
  std::optional<End> a, b;
};

class Comparison {
 public:
  Comparison(const Cabling& cabling, const std::vector<ExpectedPair>& expected)
      : cabling_(cabling) {
    for (const ExpectedPair& pair : expected) {
      const bool here = note_host(pair.a) && note_host(pair.b);
      if (!here) continue;
      const Wanted& wanted = wanted_.emplace_back(Wanted{pair, find(pair.a), find(pair.b)});
      if (wanted.a) expected_ends_.insert(*wanted.a);
      if (wanted.b) expected_ends_.insert(*wanted.b);
      if (wanted.a && wanted.b) expected_.insert(ordered(*wanted.a, *wanted.b));
    }
  }

  std::vector<Finding> findings() {
    for (const Wanted& wanted : wanted_) look_at(wanted);
    for (const Cable& cable : cabling_.cables) {
      for (const Half& half : cable.halves) look_at(half);
    }
    return std::move(findings_);
  }

 private:
  using Pair = std::pair<End, End>;
  static Pair ordered(const End& a, const End& b) { return {std::min(a, b), std::max(a, b)}; }

  bool note_host(const std::string& port);
  std::optional<End> find(const std::string& port) const;
  bool meet(const End& a, const End& b) const;
  std::vector<End> unexpected_peers_of(const std::optional<End>& end) const;
  bool is_half_of_a_found_cable(const Wanted& wanted) const;
  bool has_no_rail(const std::string& port) const;
  std::string end_text(const std::string& name, const std::optional<End>& end) const;
  void look_at(const Wanted& wanted);
  void look_at(const Half& half);
  void add(const char* name, const Wanted& wanted, const std::string& evidence,
           const std::string& remedy);

  const Cabling& cabling_;
  std::vector<Wanted> wanted_;
  std::set<Pair> expected_;
  std::set<End> expected_ends_;
  std::set<std::string> absent_hosts_;
  std::vector<Finding> findings_;
};

bool Comparison::note_host(const std::string& port) {
  const std::string host = host_of(port);
  const auto is_it = [&](const HostRails& each) { return each.host == host; };
  if (std::any_of(cabling_.hosts.begin(), cabling_.hosts.end(), is_it)) return true;
  if (absent_hosts_.insert(host).second) {
    add_finding(findings_, "host-missing", host,
                {"", "The expected map has this host, and it takes no part.",
                 "Start mesh_doctor there too, or take the host out of the map."});
  }
  return false;
}

std::optional<End> Comparison::find(const std::string& port) const {
  for (std::size_t host = 0; host < cabling_.hosts.size(); ++host) {
    for (std::size_t rail = 0; rail < cabling_.hosts[host].rails.size(); ++rail) {
      const std::string name = rail_text(cabling_.hosts[host], rail);
      if (name == port || name == port + ":1") return End{host, rail};
    }
  }
  return std::nullopt;
}

bool Comparison::meet(const End& a, const End& b) const {
  const std::vector<End> others = cabling_.met_by(a);
  return std::find(others.begin(), others.end(), b) != others.end();
}

// Returns the ports that this port meets against the map.
std::vector<End> Comparison::unexpected_peers_of(const std::optional<End>& end) const {
  if (!end) return {};
  std::vector<End> others = cabling_.met_by(*end);
  std::erase_if(others, [&](const End& other) { return expected_.contains(ordered(*end, other)); });
  return others;
}

// Returns true if a found cable has the pair's other half: the missing half is a finding by itself.
bool Comparison::is_half_of_a_found_cable(const Wanted& wanted) const {
  const auto shares = [&](const std::optional<End>& end, const End& found) {
    return end && end->host == found.host &&
           engine::same_cable(cabling_.hosts[found.host].rails, end->rail, found.rail);
  };
  for (const Cable& cable : cabling_.cables) {
    const Half& half = cable.halves.front();
    const bool hosts_fit =
        std::set{cabling_.hosts[cable.a()].host, cabling_.hosts[cable.b()].host} ==
        std::set{host_of(wanted.names.a), host_of(wanted.names.b)};
    if (!hosts_fit) continue;
    for (const std::optional<End>& end : {wanted.a, wanted.b}) {
      if (shares(end, half.a) || shares(end, half.b)) return true;
    }
  }
  return false;
}

// Returns true if the port's host has no rail at all, which is the finding then.
bool Comparison::has_no_rail(const std::string& port) const {
  return std::any_of(cabling_.hosts.begin(), cabling_.hosts.end(), [&](const HostRails& each) {
    return each.host == host_of(port) && each.rails.empty();
  });
}

std::string Comparison::end_text(const std::string& name, const std::optional<End>& end) const {
  if (!end) return fmt::format("{} is no usable rail", name);
  const engine::WireRail& rail = cabling_.rail(*end);
  const std::vector<End> others = cabling_.met_by(*end);
  std::string text = fmt::format("{} ({}{})", cabling_.text(*end), address_of(rail),
                                 rail.up == 0 ? ", its port is down" : "");
  if (others.empty()) return text + " meets no port";
  text += " meets ";
  for (const End& other : others)
    text += (&other == &others.front() ? "" : ", ") + cabling_.text(other);
  return text;
}

void Comparison::add(const char* name, const Wanted& wanted, const std::string& evidence,
                     const std::string& remedy) {
  add_finding(findings_, name, host_of(wanted.names.a) + " and " + host_of(wanted.names.b),
              {wanted.names.a + " -- " + wanted.names.b, evidence, remedy});
}

void Comparison::look_at(const Wanted& wanted) {
  if (wanted.a && wanted.b && meet(*wanted.a, *wanted.b)) return;
  const std::string evidence =
      end_text(wanted.names.a, wanted.a) + "; " + end_text(wanted.names.b, wanted.b);
  if (!unexpected_peers_of(wanted.a).empty() || !unexpected_peers_of(wanted.b).empty()) {
    add("crossed-cables", wanted, evidence,
        "Plug the cable in as the map has it, or correct the addresses of both ends. mesh_doctor "
        "--write-map writes a map of the present cabling.");
    return;
  }
  if (is_half_of_a_found_cable(wanted) || has_no_rail(wanted.names.a) ||
      has_no_rail(wanted.names.b))
    return;
  const bool both_up =
      wanted.a && wanted.b && cabling_.rail(*wanted.a).up != 0 && cabling_.rail(*wanted.b).up != 0;
  if (both_up) {
    add("wrong-subnet", wanted, evidence,
        "Give both ends addresses in one subnet with one prefix length.");
    return;
  }
  add("missing-cable", wanted, evidence,
      "Plug the cable in. mesh_rails on either host tells why a port is no rail.");
}

void Comparison::look_at(const Half& half) {
  if (expected_.contains(ordered(half.a, half.b))) return;
  // A port of the map that meets a wrong port is told where its own cable is missed.
  if (expected_ends_.contains(half.a) || expected_ends_.contains(half.b)) return;
  add_finding(findings_, "extra-cable",
              cabling_.hosts[half.a.host].host + " and " + cabling_.hosts[half.b.host].host,
              {cabling_.text(half), "The expected map has neither port of this cable.",
               "Remove the cable, or add it to the map (mesh_doctor --write-map)."});
}

}  // namespace

Result<std::vector<ExpectedPair>> parse_map(const std::string& text, std::string& why) {
  std::vector<ExpectedPair> pairs;
  std::istringstream lines(text);
  std::size_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    std::istringstream words(line);
    ExpectedPair pair;
    std::string more;
    words >> pair.a >> pair.b >> more;
    if (pair.a.empty() || pair.a.starts_with('#')) continue;
    if (names_port(pair.a) && names_port(pair.b) && (more.empty() || more.starts_with('#')) &&
        pairs.size() < kExpectedPairsMax) {
      pairs.push_back(std::move(pair));
      continue;
    }
    why = fmt::format("line {} is \"{}\"; wanted: HOST/PORT HOST/PORT", number, line);
    return Errc::InvalidArgument;
  }
  if (!pairs.empty()) return pairs;
  why = "it has no line; wanted: HOST/PORT HOST/PORT";
  return Errc::InvalidArgument;
}

std::vector<Finding> compare(const Cabling& cabling, const std::vector<ExpectedPair>& expected) {
  return Comparison(cabling, expected).findings();
}

}  // namespace mesh::doctor
