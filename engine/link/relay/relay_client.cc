#include "engine/link/relay/relay_client.h"

#include "engine/control/handle.h"
#include "src/base/check.h"
#include "src/base/log.h"

#include <algorithm>
#include <utility>

namespace mesh::engine {

// ---- Chains.

std::unique_ptr<RelayedChains> RelayClient::ask(Order order) {
  std::unique_ptr<RelayedChains> chains(
      new RelayedChains(*this, std::move(order.route), order.sizes.qps, std::move(order.changed)));
  chains_.push_back(chains.get());
  for (const RouteHop& hop : chains->route().hops) {
    const ConnectionId connection = connection_to(hop.host);
    const std::uint64_t number = ++last_number_;
    chains->parts_.push_back({.connection = connection, .number = number});
    say(connection, Chain{.ticket = hop.host.ticket,
                          .chain = number,
                          .near_rail = hop.near_rail,
                          .near_address = hop.near_address,
                          .far_rail = hop.far_rail,
                          .far_address = hop.far_address,
                          .sizes = order.sizes,
                          .traffic_class = order.traffic_class,
                          .service_level = order.service_level});
  }
  return chains;
}

RelayedChains* RelayClient::chains_of(ConnectionId connection, std::uint64_t number) noexcept {
  const auto found = std::find_if(chains_.begin(), chains_.end(), [&](RelayedChains* each) {
    return each->part_of(connection, number) != nullptr;
  });
  return found == chains_.end() ? nullptr : *found;
}

// ---- The control plane's events.

void RelayClient::on_dialed(ConnectionId connection) {
  host_.plane().identify(connection);
  for (Talk& talk : talks_) talk.up |= talk.connection == connection;
}

void RelayClient::on_lost(ConnectionId connection, const std::string& text) {
  std::string why = text;
  for (Talk& talk : talks_) {
    if (talk.connection != connection) continue;
    why = fmt::format("host {}: {}", talk.host.name, text);
    hang_up(talk);
  }
  const std::vector<RelayedChains*> all = chains_;  // a call of changed_() may end others
  for (RelayedChains* const chains : all) {
    if (std::find(chains_.begin(), chains_.end(), chains) == chains_.end()) continue;
    for (RelayedChains::Part& part : chains->parts_) {
      if (part.connection != connection) continue;
      part.connection = 0;
      chains->break_off(part, why);
    }
  }
}

bool RelayClient::on_frame(ConnectionId connection, const FrameHeader& header,
                           std::span<const std::byte> body) {
  PeersAre peers;
  Chained chained;
  Joined joined;
  Cut cut;
  const auto talk = std::find_if(talks_.begin(), talks_.end(), [connection](const Talk& each) {
    return each.connection == connection;
  });
  CHECK(talk != talks_.end());
  talk->silent_since_ns = 0;
  const bool fits =
      (header.type == MessageType::PeersAre && decode_into(body, &peers) &&
       on_peers(*talk, peers)) ||
      (header.type == MessageType::Chained && decode_into(body, &chained) &&
       on_chained(connection, chained)) ||
      (header.type == MessageType::Joined && decode_into(body, &joined) &&
       on_joined(connection, joined)) ||
      (header.type == MessageType::Cut && decode_into(body, &cut) && on_cut(connection, cut));
  if (fits) return true;
  LOG_WARN(
      "relay {}: a control message ({}) that is malformed or out of order; connection "
      "dropped",
      talk->host.name, frame_name(header.type));
  on_lost(connection, "it sent a malformed control message");
  return false;
}

namespace {
// Returns true if the ports of a host are up and down as they were told before.
bool have_same_state(const std::vector<WireRail>& before, const std::vector<WireRail>& now) {
  return std::equal(before.begin(), before.end(), now.begin(), now.end(),
                    [](const WireRail& a, const WireRail& b) { return a.up == b.up; });
}
}  // namespace

bool RelayClient::on_peers(Talk& talk, const PeersAre& body) {
  for (WireHost host : body.host) {
    if (host.ticket == talk.host.ticket) {
      if (!have_same_state(talk.rails, host.rails)) ++news_;
      talk.rails = std::move(host.rails);
      continue;
    }
    host.addresses =
        ways_back(std::move(host.addresses), host_.plane().peer_address(talk.connection));
    add_once(talk.heard, host);
  }
  if (body.left != 0) return talk.heard.size() <= kRelayHostsMax;
  const auto is_news = [&talk](const WireHost& host) { return !is_among(talk.known, host.ticket); };
  if (std::any_of(talk.heard.begin(), talk.heard.end(), is_news)) ++news_;
  talk.known = std::exchange(talk.heard, {});
  talk.asking = false;
  host_.tend_soon();
  return true;
}

// Frames about chains that have been cut meanwhile are ignored; they are no mistake of the peer.
bool RelayClient::on_chained(ConnectionId connection, const Chained& body) {
  RelayedChains* const chains = chains_of(connection, body.chain);
  if (chains == nullptr || chains->step() != RelayedChains::Step::Asked) return true;
  RelayedChains::Part& part = *chains->part_of(connection, body.chain);
  if (body.result != Errc::Ok) {
    chains->break_off(part, body.text);
    return true;
  }
  for (const WireHop& end : body.ends) {
    const bool has_rings = std::all_of(end.qps.begin(), end.qps.end(),
                                       [](const WireHopQp& each) { return each.ring.slots != 0; });
    if (end.qps.size() == chains->queue_pairs_ && has_rings) continue;
    chains->break_off(part, "a host on the way names queue pairs that were not asked for");
    return true;
  }
  part.near = body.ends.front();
  part.far = body.ends.back();
  chains->finish_part(part, RelayedChains::Step::Made);
  return true;
}

bool RelayClient::on_joined(ConnectionId connection, const Joined& body) {
  RelayedChains* const chains = chains_of(connection, body.chain);
  if (chains == nullptr || chains->step() != RelayedChains::Step::Joining) return true;
  RelayedChains::Part& part = *chains->part_of(connection, body.chain);
  if (body.result != Errc::Ok) {
    chains->break_off(part, body.text);
    return true;
  }
  chains->finish_part(part, RelayedChains::Step::Joined);
  return true;
}

bool RelayClient::on_cut(ConnectionId connection, const Cut& body) {
  RelayedChains* const chains = chains_of(connection, body.chain);
  if (chains != nullptr) chains->break_off(*chains->part_of(connection, body.chain), body.text);
  return true;
}

}  // namespace mesh::engine
