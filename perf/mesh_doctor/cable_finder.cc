#include "perf/mesh_doctor/cable_finder.h"

#include "engine/link/cable_message.h"
#include "engine/link/path_choice.h"
#include "src/base/random.h"
#include "src/base/socket.h"
#include "src/topo/pairing.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>

namespace mesh::doctor {
namespace {

using engine::CableMessage;

// Returns the subnets of an Ethernet rail. Every net device has a link-local IPv6 address, which
// counts for a rail that has no other.
std::set<std::string> subnets_of(const engine::WireRail& rail) {
  std::set<std::string> subnets;
  for (const engine::WireAddress& each : rail.addresses) {
    const SocketAddress address = SocketAddress::from_gid(each.gid);
    const bool usual = address.family == AF_INET6 && address.link_local();
    if (rail.ethernet != 0 && !(usual && rail.addresses.size() > 1))
      subnets.insert(topo::subnet_text({address, each.prefix_len}));
  }
  return subnets;
}

// Returns the subnets that several rails of some host are in. They may be on several cables, and
// then two hosts with one port each there need not meet.
std::set<std::string> subnets_in_doubt(const std::vector<HostRails>& hosts) {
  std::set<std::string> several;
  for (const HostRails& host : hosts) {
    std::set<std::string> seen;
    for (const engine::WireRail& rail : host.rails)
      for (const std::string& subnet : subnets_of(rail))
        if (!seen.insert(subnet).second) several.insert(subnet);
  }
  return several;
}

// Returns, as bits, the host's rails that are in one of the subnets.
std::uint64_t rails_in(const std::set<std::string>& subnets, const HostRails& host) {
  std::uint64_t bits = 0;
  for (std::size_t rail = 0; rail < host.rails.size(); ++rail)
    for (const std::string& subnet : subnets_of(host.rails[rail]))
      if (subnets.contains(subnet)) bits |= std::uint64_t{1} << rail;
  return bits;
}

// Returns the pairs of the two hosts' rails of which addresses do not tell whether they meet.
std::vector<topo::WirePair> doubtful(const HostRails& connector, const HostRails& acceptor,
                                     const std::set<std::string>& shared) {
  if (connector.rails.empty() || acceptor.rails.empty()) return {};
  engine::Hello hello = hello_of(connector);
  hello.proof.shared = rails_in(shared, connector);
  return engine::doubtful_rails(
             hello, {acceptor.rails, acceptor.site, rails_in(shared, acceptor), acceptor.host_id})
      .up;
}

bool any_doubt(const std::vector<HostRails>& hosts) {
  const std::set<std::string> shared = subnets_in_doubt(hosts);
  for (std::size_t last = 0; last < hosts.size(); ++last)
    for (std::size_t first = 0; first < last; ++first)
      if (!doubtful(hosts[first], hosts[last], shared).empty()) return true;
  return false;
}

class CableFinder {
 public:
  CableFinder(const CableEnds& ends, const std::vector<HostRails>& hosts, std::size_t rank)
      : ends_(ends),
        hosts_(hosts),
        shared_(subnets_in_doubt(hosts)),
        rank_(rank),
        heard_(hosts.size()) {}

  void greet();
  void listen(std::chrono::milliseconds time);
  // Returns what is known of the cables between that host, whose rails are the local ones, and us.
  topo::CableProof proof_with(std::size_t host) const;

 private:
  std::vector<topo::WirePair> in_doubt(std::size_t host) const;
  void take(std::size_t rail, const verbs::CableDatagram& datagram);

  const CableEnds& ends_;
  const std::vector<HostRails>& hosts_;
  const std::set<std::string> shared_;
  const std::size_t rank_;
  std::vector<std::vector<topo::WirePair>> heard_;  // by host
};

std::vector<topo::WirePair> CableFinder::in_doubt(std::size_t host) const {
  const HostRails& its = hosts_[host];
  std::vector<topo::WirePair> pairs = doubtful(its, hosts_[rank_], shared_);
  std::erase_if(pairs, [&](const topo::WirePair& pair) {
    return pair.peer >= ends_.size() || ends_[pair.peer] == nullptr ||
           its.places[pair.local].port == 0;
  });
  return pairs;
}

void CableFinder::greet() {
  for (std::size_t host = 0; host < hosts_.size(); ++host) {
    if (host == rank_) continue;
    for (const topo::WirePair& pair : in_doubt(host)) {
      ends_[pair.peer]->send(
          engine::place_of(hosts_[host].places[pair.local]),
          engine::bytes_of({.kind = CableMessage::Kind::Question,
                            .connector_rail = static_cast<std::uint8_t>(pair.local),
                            .acceptor_rail = static_cast<std::uint8_t>(pair.peer),
                            .nonce = hosts_[host].nonce}));
    }
  }
}

void CableFinder::listen(std::chrono::milliseconds time) {
  std::vector<pollfd> polled;
  for (const auto& end : ends_)
    polled.push_back({.fd = end == nullptr ? -1 : end->fd(), .events = POLLIN, .revents = 0});
  const auto until = std::chrono::steady_clock::now() + time;
  for (auto now = until - time; now < until; now = std::chrono::steady_clock::now()) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - now);
    ::poll(polled.data(), polled.size(), static_cast<int>(left.count()));
    for (std::size_t rail = 0; rail < polled.size(); ++rail) {
      if (polled[rail].revents == 0) continue;
      while (const auto next = ends_[rail]->next()) take(rail, *next);
    }
  }
}

void CableFinder::take(std::size_t rail, const verbs::CableDatagram& datagram) {
  const std::optional<CableMessage> message = engine::cable_message_of(datagram.span());
  if (!message || message->connector_rail != rail ||
      !same_secret(message->nonce, hosts_[rank_].nonce))
    return;
  for (std::size_t host = 0; host < hosts_.size(); ++host) {
    const std::vector<engine::WirePlace>& places = hosts_[host].places;
    const std::size_t its = message->acceptor_rail;
    if (its >= places.size() ||
        reached_from(datagram.from, engine::place_of(places[its])) != datagram.from)
      continue;
    const topo::WirePair pair{.local = its, .peer = rail};
    if (!topo::holds(heard_[host], pair)) heard_[host].push_back(pair);
  }
}

topo::CableProof CableFinder::proof_with(std::size_t host) const {
  topo::CableProof proof{.asked = in_doubt(host), .met = heard_[host]};
  std::erase_if(proof.met, [&proof](const auto& pair) { return !topo::holds(proof.asked, pair); });
  std::sort(proof.met.begin(), proof.met.end());
  return proof;
}

}  // namespace

// All hosts must listen while one greets.
Result<Proofs> find_cables(driver::Bootstrap& bootstrap, const CableEnds& ends,
                           const std::vector<HostRails>& hosts) {
  constexpr int kRounds = 3;
  constexpr std::chrono::milliseconds kListens{100};
  const auto rank = static_cast<std::size_t>(bootstrap.rank());
  CableFinder finder(ends, hosts, rank);
  for (int round = 0; round < kRounds && any_doubt(hosts); ++round) {
    finder.greet();
    finder.listen(kListens);
    if (const Status met = bootstrap.barrier(); !met.ok()) return met;
    if (round + 1 == kRounds) finder.listen(kListens);
  }
  std::vector<topo::CableProof> mine(rank);
  for (std::size_t i = 0; i < rank; ++i) mine[i] = finder.proof_with(i);
  const auto texts = bootstrap.all_gather(proofs_text(mine));
  if (!texts.ok()) return texts.status();
  Proofs proofs;
  for (std::size_t host = 0; host < texts->size(); ++host) {
    auto of_host = proofs_from((*texts)[host], host);
    if (!of_host.ok()) return of_host.status();
    proofs.push_back(std::move(*of_host));
  }
  return proofs;
}

}  // namespace mesh::doctor
