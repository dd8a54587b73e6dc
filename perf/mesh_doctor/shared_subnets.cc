#include "perf/mesh_doctor/shared_subnets.h"

#include "src/base/socket.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>

namespace mesh::doctor {
namespace {

using Json = nlohmann::json;

// Returns true if the pair is the only one of either of its ports: they are on a cable and not on a
// switch.
bool is_cable(const topo::CableProof& proof, const topo::WirePair& pair) {
  return std::none_of(proof.met.begin(), proof.met.end(), [&pair](const topo::WirePair& each) {
    return each != pair && (each.local == pair.local || each.peer == pair.peer);
  });
}

// Returns the rails of a host that are on a cable to a host other than one.
std::set<std::size_t> cabled_rails(const Proofs& proofs, std::size_t host, std::size_t but) {
  std::set<std::size_t> rails;
  for (std::size_t other = 0; other < proofs.size(); ++other) {
    if (other == host || other == but) continue;
    const bool is_later = host > other;  // the later host has the proof, and is its peer
    const topo::CableProof& proof = is_later ? proofs[host][other] : proofs[other][host];
    for (const topo::WirePair& pair : proof.met)
      if (is_cable(proof, pair)) rails.insert(is_later ? pair.peer : pair.local);
  }
  return rails;
}

Finding shared_subnet(const Cabling& cabling, std::size_t host, std::size_t other,
                      const topo::CableProof& proof) {
  const engine::WireAddress& first =
      cabling.hosts[host].rails[proof.asked.front().local].addresses.front();
  const std::string subnet =
      topo::subnet_text({SocketAddress::from_gid(first.gid), first.prefix_len});
  std::string evidence;
  for (const topo::WirePair& pair : proof.met) {
    evidence +=
        fmt::format("{}{} is cabled to {}", evidence.empty() ? "Datagrams tell: " : ", ",
                    cabling.text(End{host, pair.local}), cabling.text(End{other, pair.peer}));
  }
  if (evidence.empty())
    evidence = "No datagram was answered, so the ports are taken to meet by their place";
  return finding("shared-subnet", cabling.hosts[host].host + " and " + cabling.hosts[other].host,
                 {subnet, evidence + ".",
                  "nccl-mesh needs no change if this is right. Other programs send to all of the "
                  "subnet over one port: give each cable a subnet of its own. If datagrams are not "
                  "answered, let UDP pass between IPv6 link-local addresses on these ports."});
}

}  // namespace

std::string proofs_text(const std::vector<topo::CableProof>& proofs) {
  Json all = Json::array();
  for (const topo::CableProof& proof : proofs) {
    Json pairs = Json::array();
    for (const topo::WirePair& pair : proof.asked)
      pairs.push_back({pair.local, pair.peer, topo::holds(proof.met, pair)});
    all.push_back(std::move(pairs));
  }
  return all.dump();
}

Result<std::vector<topo::CableProof>> proofs_from(const std::string& text, std::size_t hosts) {
  std::vector<topo::CableProof> proofs;
  try {
    for (const Json& pairs : Json::parse(text)) {
      topo::CableProof& proof = proofs.emplace_back();
      for (const Json& each : pairs) {
        const topo::WirePair pair{each.at(0).get<std::uint8_t>(), each.at(1).get<std::uint8_t>()};
        proof.asked.push_back(pair);
        if (each.at(2).get<bool>()) proof.met.push_back(pair);
      }
    }
    if (proofs.size() == hosts) return proofs;
  } catch (const Json::exception&) {
  }
  return Errc::Protocol;
}

bool are_cabled_elsewhere(const Proofs& proofs, std::size_t host, std::size_t other) {
  const std::size_t first = std::min(host, other), last = std::max(host, other);
  const topo::CableProof& proof = proofs[last][first];
  const std::set<std::size_t> of_first = cabled_rails(proofs, first, last),
                              of_last = cabled_rails(proofs, last, first);
  return proof.met.empty() && !proof.asked.empty() &&
         std::all_of(proof.asked.begin(), proof.asked.end(), [&](const topo::WirePair& pair) {
           return of_first.contains(pair.local) || of_last.contains(pair.peer);
         });
}

std::vector<Finding> shared_subnets(const Cabling& cabling, const Proofs& proofs) {
  std::vector<Finding> findings;
  for (std::size_t last = 0; last < proofs.size(); ++last) {
    for (std::size_t first = 0; first < last; ++first) {
      const topo::CableProof& proof = proofs[last][first];
      const bool switched =
          std::any_of(proof.met.begin(), proof.met.end(),
                      [&proof](const topo::WirePair& pair) { return !is_cable(proof, pair); });
      if (proof.asked.empty() || switched || are_cabled_elsewhere(proofs, first, last)) continue;
      findings.push_back(shared_subnet(cabling, first, last, proof));
    }
  }
  return findings;
}

}  // namespace mesh::doctor
