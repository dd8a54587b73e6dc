#include "engine/control_listener.h"

#include "src/base/log.h"

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

namespace mesh::engine {

namespace {

// One socket serves one family, the first interface's, as NCCL's own bootstrap does.
std::vector<SocketAddress> same_family(const std::vector<InterfaceAddress>& found) {
  std::vector<SocketAddress> addresses;
  for (const InterfaceAddress& interface : found) {
    if (interface.address.family != found.front().address.family) continue;
    if (std::find(addresses.begin(), addresses.end(), interface.address) != addresses.end()) continue;
    if (addresses.size() < kListenAddressesMax) addresses.push_back(interface.address);
  }
  return addresses;
}

}  // namespace

Result<ControlListener> open_listener(const ControlPlaneOptions& options) {
  const std::vector<InterfaceAddress> found = interfaces({options.socket_ifname, options.socket_family});
  if (found.empty()) {
    LOG_WARN("control: no network interface is up that fits NCCL_SOCKET_IFNAME={} NCCL_SOCKET_FAMILY={}",
             options.socket_ifname.empty() ? "(unset)" : options.socket_ifname,
             options.socket_family.empty() ? "(unset)" : options.socket_family);
    return Errc::NotFound;
  }
  ControlListener listener;
  listener.addresses = same_family(found);
  // Who named interfaces wants that one and no other; else peers may come by whichever of ours they reach, and by no other.
  if (!options.socket_ifname.empty()) listener.addresses.resize(1);
  std::vector<SocketAddress> heard;
  for (const SocketAddress& address : listener.addresses) {
    Result<UniqueFd> fd = tcp_listen(address, listener.port);
    if (!fd.ok() && heard.empty()) {
      LOG_WARN("control: cannot listen on {} ({}): {}", address.text(), found.front().name, std::generic_category().message(errno));
      return fd.status();
    }
    if (!fd.ok()) continue;  // somebody else's port there: peers find us at the others
    const Result<std::uint16_t> port = local_port(fd->get());
    if (!port.ok()) return port.status();
    listener.port = *port;
    listener.fds.push_back(std::move(*fd));
    heard.push_back(address);
  }
  listener.addresses = std::move(heard);
  LOG_INFO("control: handshakes on {} ({})", listener.addresses.front().text_with_port(listener.port), found.front().name);
  return listener;
}

}  // namespace mesh::engine
