#include "perf/mesh_doctor/between.h"

#include "src/base/config.h"
#include "src/base/socket.h"
#include "src/base/unique_fd.h"

#include <poll.h>
#include <sys/socket.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>

namespace mesh::doctor {
namespace {

using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;

struct ListenAddress {
  std::string interface, address;
  std::uint16_t port = 0;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ListenAddress, interface, address, port)

struct OwnListeners {
  std::vector<ListenAddress> addresses;
  std::vector<UniqueFd> sockets;
};

// Listens where the plugin would (engine/control/control_listener.cc): at the addresses of the
// first one's family, without IPv6 link-local ones, which mean nothing without an interface.
OwnListeners listen_everywhere() {
  OwnListeners own;
  const Result<Settings> settings = load_settings();
  if (!settings.ok()) return own;
  const auto found = interfaces({settings->socket_ifname, settings->socket_family});
  for (const InterfaceAddress& each : found) {
    if (own.addresses.size() == kHandshakeAddressesMax) break;
    if (each.address.family != found.front().address.family) continue;
    if (each.address.family == AF_INET6 && each.address.link_local()) continue;
    auto socket = tcp_listen(each.address, 0);
    if (!socket.ok()) continue;
    const auto port = local_port(socket->get());
    if (!port.ok()) continue;
    own.addresses.push_back({each.name, each.address.text(), *port});
    own.sockets.push_back(std::move(*socket));
  }
  return own;
}

std::vector<ListenAddress> addresses_from(const std::string& text) {
  try {
    return Json::parse(text).get<std::vector<ListenAddress>>();
  } catch (const Json::exception&) {
    return {};
  }
}

struct Attempt {
  std::size_t host = 0;
  UniqueFd socket;
};

void start_attempts(const std::vector<ListenAddress>& addresses, std::size_t host,
                    std::vector<Attempt>& attempts) {
  for (const ListenAddress& each : addresses) {
    const auto address = SocketAddress::from_text(each.address);
    if (!address.ok()) continue;
    auto socket = tcp_connect_start(*address, each.port);
    if (socket.ok()) attempts.push_back({host, std::move(*socket)});
  }
}

// Takes the connects that have ended. Marks a host to which one has succeeded in `reached`.
void take_finished(std::vector<Attempt>& attempts, const std::vector<pollfd>& entries,
                   std::vector<bool>& reached) {
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (entries[i].revents == 0) continue;
    if (tcp_connect_result(attempts[i].socket.get()).ok()) reached[attempts[i].host] = true;
    attempts[i].socket.reset();
  }
  std::erase_if(attempts,
                [&](const Attempt& each) { return !each.socket.valid() || reached[each.host]; });
}

// Returns which hosts answer at any of their addresses.
std::vector<bool> reach(const std::vector<std::vector<ListenAddress>>& addresses,
                        std::size_t own_rank) {
  std::vector<bool> reached(addresses.size());
  std::vector<Attempt> attempts;
  for (std::size_t host = 0; host < addresses.size(); ++host)
    if (host != own_rank) start_attempts(addresses[host], host, attempts);
  const auto end = Clock::now() + std::chrono::milliseconds(kHandshakeMsMax);
  while (!attempts.empty() && Clock::now() < end) {
    std::vector<pollfd> entries;
    entries.reserve(attempts.size());
    for (const Attempt& each : attempts) entries.push_back({each.socket.get(), POLLOUT, 0});
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
    if (::poll(entries.data(), entries.size(), static_cast<int>(std::max<long>(left, 0))) > 0)
      take_finished(attempts, entries, reached);
  }
  return reached;
}

std::string addresses_text(const std::vector<ListenAddress>& addresses) {
  std::string text;
  for (const ListenAddress& each : addresses)
    text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", each.address, each.interface);
  return text.empty() ? "none" : text;
}

std::string reached_text(const std::vector<bool>& reached) {
  std::string text;
  for (const bool each : reached) text += each ? '1' : '0';
  return text;
}

// Adds a finding for each host that `from` does not reach. reached: `from`'s marks, one per host.
void note_unreached(HandshakeLook& look, const std::vector<std::string>& hosts, std::size_t from,
                    const std::string& reached) {
  for (std::size_t to = 0; to < hosts.size() && to < reached.size(); ++to) {
    if (to == from || reached[to] == '1') continue;
    add_finding(look.findings, "handshake-network", hosts[from] + " and " + hosts[to],
                {"",
                 fmt::format("{} listens at the addresses {}, and {} reaches none of them by TCP.",
                             hosts[to], look.addresses[to], hosts[from]),
                 "Set NCCL_SOCKET_IFNAME on every host to the interface of the network that all "
                 "hosts share, and open its TCP ports between the hosts."});
  }
}

}  // namespace

HandshakeLook look_at_handshake(driver::Bootstrap& bootstrap,
                                const std::vector<std::string>& hosts) {
  HandshakeLook look;
  const OwnListeners own = listen_everywhere();
  const auto texts = bootstrap.all_gather(Json(own.addresses).dump());
  look.lost = !texts.ok();
  if (look.lost) return look;
  std::vector<std::vector<ListenAddress>> addresses;
  for (const std::string& text : *texts) {
    addresses.push_back(addresses_from(text));
    look.addresses.push_back(addresses_text(addresses.back()));
  }
  const auto all = bootstrap.all_gather(
      reached_text(reach(addresses, static_cast<std::size_t>(bootstrap.rank()))));
  look.lost = !all.ok();
  if (look.lost) return look;
  for (std::size_t from = 0; from < all->size(); ++from)
    note_unreached(look, hosts, from, (*all)[from]);
  return look;
}

}  // namespace mesh::doctor
