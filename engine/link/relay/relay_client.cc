#include "engine/link/relay/relay_client.h"

#include "engine/control/handle.h"
#include "engine/link/link_host.h"
#include "src/base/check.h"
#include "src/base/log.h"
#include "src/base/secret.h"

#include <algorithm>
#include <exception>
#include <utility>

namespace mesh::engine {

namespace {
constexpr std::uint64_t kAskAgainNs = 1'000'000'000;
// So long a connection is kept for the answer to a question.
constexpr std::uint64_t kAnswerNs = 5'000'000'000;

void add_once(std::vector<WireHost>& hosts, const WireHost& host) {
  const bool known = std::any_of(hosts.begin(), hosts.end(), [&host](const WireHost& each) {
    return each.ticket == host.ticket;
  });
  if (!known && host.ticket != Id128{} && hosts.size() < kRelayHostsMax) hosts.push_back(host);
}
}  // namespace

// ---- Chains.

RelayedChains::RelayedChains(RelayClient& client, RelayRoute route, std::size_t queue_pairs,
                             std::function<void()> changed)
    : client_(client),
      route_(std::move(route)),
      queue_pairs_(queue_pairs),
      changed_(std::move(changed)) {}

RelayedChains::~RelayedChains() {
  for (const Part& part : parts_) {
    if (part.connection == 0) continue;
    try {
      client_.say(part.connection, Cut{.chain = part.number});
    } catch (const std::exception& error) {
      LOG_WARN("relay: {}; the host on the way hears of the end when the connection ends",
               error.what());
    }
  }
  std::erase(client_.chains_, this);
}

RelayedChains::Part* RelayedChains::part_of(ConnectionId connection,
                                            std::uint64_t number) noexcept {
  const auto found = std::find_if(parts_.begin(), parts_.end(), [&](const Part& part) {
    return part.connection == connection && part.number == number;
  });
  return found == parts_.end() ? nullptr : &*found;
}

void RelayedChains::finish_part(Part& part, Step next) {
  part.done = true;
  if (!std::all_of(parts_.begin(), parts_.end(), [](const Part& each) { return each.done; }))
    return;
  step_ = next;
  changed_();
}

void RelayedChains::break_off(std::string why) {
  if (step_ == Step::Broken) return;
  step_ = Step::Broken;
  why_ = std::move(why);
  changed_();
}

// Each middle host is told its neighbours: we, the other middle hosts, and the peer.
void RelayedChains::join(const WireHop& own, const WireHop& peer) {
  CHECK(step_ == Step::Made);
  step_ = Step::Joining;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    parts_[i].done = false;
    const WireHop& near = i == 0 ? own : parts_[i - 1].far;
    const WireHop& far = i + 1 == parts_.size() ? peer : parts_[i + 1].near;
    client_.say(parts_[i].connection, Join{.chain = parts_[i].number, .near = near, .far = far});
  }
}

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

// ---- Who is known.

std::vector<WireHost> RelayClient::peers() const {
  std::vector<WireHost> hosts;
  for (const WireHost& host : peers_()) add_once(hosts, host);
  return hosts;
}

std::vector<WireHost> RelayClient::hosts() const {
  std::vector<WireHost> hosts = peers();
  for (const Talk& talk : talks_) {
    for (const WireHost& host : talk.known) add_once(hosts, host);
  }
  return hosts;
}

std::optional<RelayRoute> RelayClient::find(RouteWish wish, const Search& search) {
  std::vector<WireHost> known = hosts();
  const auto is = [this](const WireHost& host, const Id128& ticket) {
    return host.ticket == ticket || host.ticket == host_.ticket();
  };
  std::erase_if(known, [&](const WireHost& each) { return is(each, search.peer); });
  std::vector<WireHost> preferred = known;
  std::erase_if(preferred, [&search](const WireHost& each) {
    return std::find(search.avoided.begin(), search.avoided.end(), each.ticket) !=
           search.avoided.end();
  });
  wish.hosts = preferred;
  std::optional<RelayRoute> route = find_route(wish);
  wish.hosts = known;
  if (!route && preferred.size() != known.size()) route = find_route(wish);
  if (!route) ask_all(known);
  return route;
}

bool RelayClient::knows_others(const Id128& peer) const {
  const std::vector<WireHost> known = hosts();
  return std::any_of(known.begin(), known.end(), [&](const WireHost& each) {
    return each.ticket != peer && each.ticket != host_.ticket();
  });
}

void RelayClient::ask_all(std::span<const WireHost> hosts) {
  const std::uint64_t now_ns = host_.now_ns();
  for (const WireHost& host : hosts) {
    Talk& talk = talk_with(host);
    if (talk.asked_ns != 0 && now_ns < talk.asked_ns + kAskAgainNs) continue;
    talk.asked_ns = now_ns;
    say(connection_to(host), AskPeers{.ticket = host.ticket});
  }
}

// ---- Connections.

template <typename Body>
void RelayClient::say(ConnectionId connection, const Body& body) {
  host_.plane().send(connection, encode(FrameHeader{}, body));  // a lost one reports itself
}

RelayClient::Talk& RelayClient::talk_with(const WireHost& host) {
  const auto found = std::find_if(talks_.begin(), talks_.end(), [&host](const Talk& talk) {
    return talk.host.ticket == host.ticket;
  });
  if (found != talks_.end()) return *found;
  return talks_.emplace_back(Talk{.host = host});
}

ConnectionId RelayClient::connection_to(const WireHost& host) {
  Talk& talk = talk_with(host);
  if (talk.connection == 0)
    talk.connection =
        host_.plane().dial({.addresses = talk.host.addresses, .port = talk.host.port});
  return talk.connection;
}

// An answer that is awaited is needed, but not for ever, and not where no link is left.
void RelayClient::tend() {
  const bool talking = std::any_of(talks_.begin(), talks_.end(),
                                   [](const Talk& talk) { return talk.connection != 0; });
  if (!talking) return;
  const bool idle = peers_().empty();
  for (Talk& talk : talks_) {
    if (talk.connection == 0) continue;
    const bool used = std::any_of(chains_.begin(), chains_.end(), [&talk](RelayedChains* each) {
      return std::any_of(each->parts_.begin(), each->parts_.end(),
                         [&talk](const auto& part) { return part.connection == talk.connection; });
    });
    const std::uint64_t until_ns = talk.asked_ns == 0 ? 0 : talk.asked_ns + kAnswerNs;
    if (used || (!idle && host_.now_ns() < until_ns)) {
      if (!used) host_.tend_at(until_ns);
      continue;
    }
    host_.plane().close(talk.connection);
    talk.connection = 0;
    talk.heard.clear();
  }
}

bool RelayClient::owns(ConnectionId connection) const noexcept {
  return std::any_of(talks_.begin(), talks_.end(),
                     [connection](const Talk& talk) { return talk.connection == connection; });
}

void RelayClient::on_dialed(ConnectionId connection) { host_.plane().identify(connection); }

void RelayClient::on_lost(ConnectionId connection, const std::string& text) {
  for (Talk& talk : talks_) {
    if (talk.connection == connection) talk.connection = 0, talk.heard.clear();
  }
  const std::vector<RelayedChains*> all = chains_;  // what is told may end others
  for (RelayedChains* const chains : all) {
    if (std::find(chains_.begin(), chains_.end(), chains) == chains_.end()) continue;
    for (RelayedChains::Part& part : chains->parts_) {
      if (part.connection != connection) continue;
      part.connection = 0;
      chains->break_off(text);
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
      "relay {}: a control message (type {}) that is malformed or out of order; connection "
      "dropped",
      talk->host.name, static_cast<int>(header.type));
  on_lost(connection, fmt::format("{} says what does not fit", talk->host.name));
  return false;
}

bool RelayClient::on_peers(Talk& talk, const PeersAre& body) {
  for (WireHost host : body.host) {
    host.addresses =
        ways_back(std::move(host.addresses), host_.plane().peer_address(talk.connection));
    add_once(talk.heard, host);
  }
  if (body.left != 0) return talk.heard.size() <= kRelayHostsMax;
  talk.known = std::exchange(talk.heard, {});
  host_.tend_soon();
  return true;
}

// What concerns chains that have been cut meanwhile is no mistake.
bool RelayClient::on_chained(ConnectionId connection, const Chained& body) {
  RelayedChains* const chains = chains_of(connection, body.chain);
  if (chains == nullptr || chains->step() != RelayedChains::Step::Asked) return true;
  RelayedChains::Part& part = *chains->part_of(connection, body.chain);
  if (body.result != Errc::Ok) {
    chains->break_off(body.text);
    return true;
  }
  for (const WireHop& end : body.ends) {
    const bool has_rings = std::all_of(end.qps.begin(), end.qps.end(),
                                       [](const WireHopQp& each) { return each.ring.slots != 0; });
    if (end.qps.size() == chains->queue_pairs_ && has_rings) continue;
    chains->break_off("a host on the way names queue pairs that were not asked for");
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
  if (body.result != Errc::Ok) {
    chains->break_off(body.text);
    return true;
  }
  chains->finish_part(*chains->part_of(connection, body.chain), RelayedChains::Step::Joined);
  return true;
}

bool RelayClient::on_cut(ConnectionId connection, const Cut& body) {
  RelayedChains* const chains = chains_of(connection, body.chain);
  if (chains != nullptr) chains->break_off(body.text);
  return true;
}

}  // namespace mesh::engine
