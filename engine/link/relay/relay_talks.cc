// The connections to hosts that may carry for us, and the questions that are asked on them.
#include "engine/link/relay/relay_client.h"
#include "src/base/timeouts.h"

#include <algorithm>

namespace mesh::engine {

namespace {
// The part of NCCL_MESH_PATH_TIMEOUT for which a host that owes an answer may be silent.
constexpr std::uint64_t kSilenceShare = 3;

bool is_link_local(const WireAddress& address) {
  return SocketAddress::from_gid(address.gid).link_local();
}

// Returns true if the rails may be one port. A link-local address made of a GUID that several NICs
// have is on several hosts, so it counts only if all addresses of a rail are the other's.
bool may_be_one(const WireRail& rail, const WireRail& other) {
  const auto is_others = [&other](const WireAddress& address) {
    return std::any_of(other.addresses.begin(), other.addresses.end(),
                       [&address](const WireAddress& each) { return each.gid == address.gid; });
  };
  return std::all_of(rail.addresses.begin(), rail.addresses.end(), is_others) ||
         std::any_of(rail.addresses.begin(), rail.addresses.end(), [&](const WireAddress& address) {
           return !is_link_local(address) && is_others(address);
         });
}

// Returns true if each rail may be one of the other rails.
bool are_among(const std::vector<WireRail>& rails, const std::vector<WireRail>& other) {
  return std::all_of(rails.begin(), rails.end(), [&other](const WireRail& rail) {
    return std::any_of(other.begin(), other.end(),
                       [&rail](const WireRail& each) { return may_be_one(rail, each); });
  });
}
}  // namespace

bool is_same_host(const HostFace& one, const HostFace& other) {
  if (topo::sides_of(one.id, other.id) == topo::Sides::TwoHosts) return false;
  return are_among(one.rails, other.rails) || are_among(other.rails, one.rails);
}

bool is_among(const std::vector<WireHost>& hosts, const Id128& ticket) {
  return std::any_of(hosts.begin(), hosts.end(),
                     [&ticket](const WireHost& each) { return each.ticket == ticket; });
}

void add_once(std::vector<WireHost>& hosts, const WireHost& host) {
  if (host.ticket == Id128{}) return;
  const auto known = std::find_if(hosts.begin(), hosts.end(), [&host](const WireHost& each) {
    return each.ticket == host.ticket;
  });
  if (known == hosts.end()) {
    if (hosts.size() < kRelayHostsMax) hosts.push_back(host);
    return;
  }
  if (known->port != host.port) return;
  for (const SocketAddress& address : host.addresses) {
    const auto is_it = [&address](const SocketAddress& each) { return each.same_host(address); };
    const auto& there = known->addresses;
    if (there.size() < kControlAddressesMax && std::none_of(there.begin(), there.end(), is_it))
      known->addresses.push_back(address);
  }
}

// ---- The hosts that were asked.

const RelayClient::Talk* RelayClient::talk_of(const Id128& ticket) const noexcept {
  const auto found = std::find_if(talks_.begin(), talks_.end(), [&ticket](const Talk& talk) {
    return talk.host.ticket == ticket;
  });
  return found == talks_.end() ? nullptr : &*found;
}

RelayClient::Talk& RelayClient::talk_with(const WireHost& host) {
  const auto found = std::find_if(talks_.begin(), talks_.end(), [&host](const Talk& talk) {
    return talk.host.ticket == host.ticket;
  });
  if (found != talks_.end()) {
    if (found->connection == 0) found->host = host;  // it may have more addresses now
    return *found;
  }
  forget_unreachable();
  return talks_.emplace_back(Talk{.host = host});
}

// Forgets hosts that no link leads to and no host knows any more, such as hosts of ended jobs.
void RelayClient::forget_unreachable() {
  std::vector<WireHost> left = all_peers();
  for (std::size_t i = 0; i < left.size(); ++i) {
    const Talk* const talk = talk_of(left[i].ticket);
    if (talk == nullptr) continue;
    for (const WireHost& host : talk->known) {
      if (!is_among(left, host.ticket)) left.push_back(host);
    }
  }
  std::erase_if(talks_, [&left](const Talk& talk) {
    return talk.connection == 0 && !is_among(left, talk.host.ticket);
  });
}

void RelayClient::ask_all(std::span<const WireHost> hosts, Look look) {
  const std::uint64_t now_ns = host_.now_ns();
  for (const WireHost& host : hosts) {
    if (host.ticket == host_.ticket()) continue;
    Talk& talk = talk_with(host);
    // A host that was asked for what it knows is asked at once to ask its cables, too.
    const bool deeper = look == Look::Yes && talk.looked == Look::No;
    if (talk.asked_ns != 0 && now_ns < talk.asked_ns + talk.pause_ns && !deeper) continue;
    const bool again = talk.asked_ns != 0 && now_ns < talk.asked_ns + kAskedToForgottenNs;
    if (!again) talk.pause_ns = kTryPauseMinNs;
    if (again && !deeper) talk.pause_ns = std::min(2 * talk.pause_ns, kTryPauseMaxNs);
    talk.asked_ns = now_ns;
    talk.looked = look;
    connection_to(host);
    ask_peers(talk, look);
  }
}

void RelayClient::ask_peers(Talk& talk, Look look) {
  talk.asking = true;
  say(talk.connection, AskPeers{.ticket = talk.host.ticket,
                                .look = static_cast<std::uint8_t>(look == Look::Yes ? 1 : 0)});
}

// ---- Connections.

ConnectionId RelayClient::connection_to(const WireHost& host) {
  Talk& talk = talk_with(host);
  if (talk.connection == 0)
    talk.connection = host_.plane().dial(
        {.addresses = talk.host.addresses, .port = talk.host.port, .timeout_ns = silence_ns()});
  return talk.connection;
}

void RelayClient::hang_up(Talk& talk) noexcept {
  talk.connection = 0;
  talk.up = talk.asking = false;
  talk.silent_since_ns = 0;
  talk.heard.clear();
}

bool RelayClient::uses(const Talk& talk) const noexcept {
  return std::any_of(chains_.begin(), chains_.end(),
                     [&talk](const auto* each) { return each->uses(talk.connection); });
}

bool RelayClient::owes(const Talk& talk) const noexcept {
  return talk.asking || std::any_of(chains_.begin(), chains_.end(), [&talk](const auto* each) {
           return each->awaits(talk.connection);
         });
}

std::uint64_t RelayClient::silence_ns() const noexcept {
  const auto bound_ns =
      static_cast<std::uint64_t>(host_.options().settings.path_timeout_s) * kNsPerSecond;
  return std::min(kHelperToAnswerNs, bound_ns / kSilenceShare);
}

// Closes connections without chains. An awaited answer keeps one open, but not for ever. Without a
// link nothing but the rails of a host that was found is awaited.
void RelayClient::tend() {
  ask_found();
  const bool talking = std::any_of(talks_.begin(), talks_.end(),
                                   [](const Talk& talk) { return talk.connection != 0; });
  if (!talking) return;
  const bool has_peers = !peers_().empty();
  for (Talk& talk : talks_) {
    if (talk.connection == 0) continue;
    const std::uint64_t until_ns = talk.asked_ns == 0 ? 0 : talk.asked_ns + kAskPeersToAnswerNs;
    const bool used = uses(talk);
    const bool awaited = has_peers || (talk.asking && talk.rails.empty() && any_found());
    if (used || (host_.now_ns() < until_ns && awaited)) {
      if (!used) host_.tend_at(until_ns);
      doubt(talk);
      continue;
    }
    host_.plane().close(talk.connection);
    hang_up(talk);
  }
}

// Checks a host that owes an answer: it may have lost the connection, which we would not notice for
// long. A host answers AskPeers at once, whatever else it has to do.
void RelayClient::doubt(Talk& talk) {
  const std::uint64_t now_ns = host_.now_ns(), bound_ns = silence_ns();
  if (!talk.up || !owes(talk)) talk.silent_since_ns = 0;
  if (!talk.up || !owes(talk)) return;
  if (talk.silent_since_ns == 0) talk.silent_since_ns = now_ns;
  if (now_ns >= talk.silent_since_ns + bound_ns) {
    const ConnectionId connection = talk.connection;
    host_.plane().close(connection);
    return on_lost(connection, fmt::format("it has not answered for {} ms", bound_ns / kNsPerMs));
  }
  const std::uint64_t ask_ns = talk.silent_since_ns + bound_ns / 2;
  if (!talk.asking && now_ns >= ask_ns) ask_peers(talk);
  host_.tend_at(talk.asking ? talk.silent_since_ns + bound_ns : ask_ns);
}

bool RelayClient::owns(ConnectionId connection) const noexcept {
  return std::any_of(talks_.begin(), talks_.end(),
                     [connection](const Talk& talk) { return talk.connection == connection; });
}

}  // namespace mesh::engine
