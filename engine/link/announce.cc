#include "engine/link/announce.h"

#include "engine/link/cable_proofs.h"
#include "engine/link/context.h"
#include "engine/link/link.h"
#include "src/base/log.h"

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace mesh::engine {

namespace {
std::string crossing_text(const Link& link) {
  const SiteCrossing& crossing = link.terms.crossing;
  if (!crossing.apart()) return {};
  std::uint64_t inflight_bytes = 0;
  for (const Path& path : link.peer_link().paths().all())
    inflight_bytes = std::max(inflight_bytes, path.inflight_bytes_max);
  std::string text = fmt::format("; from site {} to site {}, round trip {} us", crossing.own,
                                 crossing.peer, crossing.round_trip_ns / 1000);
  if (!link.connector()) return text;
  return fmt::format("{}, up to {} MiB in flight on a path", text, inflight_bytes >> 20);
}

// Logs the link and what its paths carry, for those who look into the network.
void log_link(const Link& link) {
  const PeerLink& peer_link = link.peer_link();
  const TransferPolicy& policy = peer_link.policy();
  std::string paths;
  bool told_relayed = false;
  for (std::uint32_t i = 0; i < peer_link.paths().count(); ++i) {
    const Path& path = peer_link.paths()[i];
    const bool first_standby = i == peer_link.paths().primary_count();
    const bool beside = peer_link.paths().is_beside(i);
    if (path.ends.by_proof) continue;
    if (path.ends.relayed && !beside && told_relayed) continue;  // one word for all of them
    told_relayed |= path.ends.relayed && !beside;
    paths += (i == 0          ? ""
              : first_standby ? "; standby: "
              : beside        ? "; beside: "
                              : ", ") +
             (path.ends.relayed && !beside ? "over other hosts" : path.name);
  }
  std::size_t queue_pairs = 0;
  for (const auto& device : link.context().loop.devices) queue_pairs += device->queue_pair_count();
  LOG_DETAIL(
      "{} host {}: {}; per path 1 express + {} bulk queue pairs{}, window {}; {} queue pairs in "
      "this communicator{}",
      link.connector() ? "sending to" : "receiving from", link.identity().peer_host, paths,
      policy.qps, policy.late_qps ? " with the first larger message" : "", policy.rq_depth,
      queue_pairs, crossing_text(link));
}
}  // namespace

// Logs the peer's cables that the log has not named. Paths over other hosts are not announced,
// because nobody knows yet whether there is such a host; they get a line when they carry messages.
void announce(const Link& link) {
  const LinkReach& reach = link.peer_link().reach();
  const std::string& peer = link.identity().peer_host;
  PeerLog& log = link.host().peer_log();
  log.note_begin(peer);
  if (reach.unreachable()) {
    LOG_DETAIL("{} host {}: {}", link.connector() ? "sending to" : "receiving from", peer,
               reach.why());
    if (log.is_news(peer, "no path"))
      LOG_INFO(
          "peer {}: no path leads to it, and a message would fail; NCCL_ALGO=Ring keeps to "
          "neighbours, or cable the two hosts",
          peer);
    return;
  }
  if (reach.all_relayed()) {
    LOG_DETAIL("{} host {}: {}; the first message opens a path over hosts between the two",
               link.connector() ? "sending to" : "receiving from", peer, reach.why());
  } else {
    log_link(link);
  }
  std::vector<std::string> cables;
  for (const Path& path : link.peer_link().paths().all()) {
    const bool is_cable = !path.ends.is_place() && !path.ends.guessed;
    if (is_cable && log.is_news(peer, path.name)) cables.push_back(path.name);
  }
  if (const SiteCrossing& crossing = link.terms.crossing; crossing.apart() && !cables.empty()) {
    cables.push_back(fmt::format("from site {} to site {}, round trip {} us", crossing.own,
                                 crossing.peer, crossing.round_trip_ns / 1000));
  }
  for (const std::string& line : log_lines(fmt::format("peer {}: ", peer), cables))
    LOG_INFO("{}", line);
}

void say_name_twice(const Link& link) {
  LinkHost& host = link.host();
  const std::string& name = link.identity().peer_host;
  const std::span<const SocketAddress> own = host.plane().addresses();
  std::vector<SocketAddress> its = link.port.addresses;
  its.insert(its.end(), link.terms.peer_addresses.begin(), link.terms.peer_addresses.end());
  PeerLog& log = host.peer_log();
  const verbs::Provider& provider = *host.options().provider;
  log.other_claim(provider.host_name(),
                  {.id = provider.host_id(), .addresses = {own.begin(), own.end()}});
  const std::optional<SocketAddress> other =
      log.other_claim(name, {.id = link.terms.peer_host_id, .addresses = its});
  if (!other || !log.is_news(name, "its name is there twice")) return;
  LOG_WARN(
      "peer {}: hosts at {} and at {} both have this name (clones?): their links are kept apart, "
      "log lines and metrics are not",
      name, other->text(), its.front().text());
}

void take_one_way(Link& link, const Id128& offer) {
  link.terms.one_way = link.host().cables()->one_way(offer, link.terms.cables);
  const std::size_t rails = link.terms.peer_rails.size();
  std::erase_if(link.terms.one_way,
                [rails](const topo::WirePair& pair) { return pair.peer >= rails; });
  const std::string& peer = link.identity().peer_host;
  for (const topo::WirePair& pair : link.terms.one_way) {
    const std::string text = fmt::format(
        "datagrams of its {} come in at our {} and our answers do not get back: the cable carries "
        "one way only, or a firewall drops them",
        link.terms.peer_rails[pair.peer].name, link.host().rails()[pair.local].info.name);
    if (link.host().peer_log().is_news(peer, text)) LOG_WARN("peer {}: {}", peer, text);
  }
  // While nothing else is known, such a cable is a better guess than the places of ports.
  if (link.terms.cables.met.empty()) link.terms.cables.met = link.terms.one_way;
}

}  // namespace mesh::engine
