// The rdma-core provider under contract. Both sides are this host, on one device that loops back.

#include "src/base/unique_fd.h"
#include "src/verbs/gid_choice.h"
#include "src/verbs/handle.h"
#include "src/verbs/rdma_provider.h"
#include "tests/contract/kinds.h"
#include "tests/prelude.h"

#include <net/if.h>
#include <sys/ioctl.h>

namespace mesh::contract {
namespace {

constexpr std::uint32_t kSoftRoceVendor = 0xffffff;

bool usable(verbs::Provider& provider, const std::string& device) {
  const verbs::ContextHandle context(provider, provider.open_device(device));
  ibv_port_attr port{};
  if (!context || provider.query_port(context.get(), 1, &port) != 0) return false;
  const bool up = port.state == IBV_PORT_ACTIVE && port.link_layer == IBV_LINK_LAYER_ETHERNET;
  return up && !verbs::choose_gids(provider.gids(context.get(), 1), {}).empty();
}

Host open_first(Side) {
  Result<std::unique_ptr<verbs::Provider>> provider = verbs::open_rdma();
  if (!provider.ok()) return {};
  for (const verbs::DeviceEntry& device : (*provider)->devices())
    if (usable(**provider, device.name)) return {std::move(*provider), device.name};
  std::fprintf(stderr, "no RDMA device with an active RoCE v2 port\n");
  return {};
}

// Sets the interface up or down, as `ip link set NETDEV up` or `down` does. Needs the privilege for
// it.
bool set_port(const Host&, const std::string& netdev, PortState state) {
  const UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  netdev.copy(request.ifr_name, sizeof request.ifr_name - 1);
  if (!socket.valid() || ::ioctl(socket.get(), SIOCGIFFLAGS, &request) != 0) return false;
  const int flags = request.ifr_flags;
  request.ifr_flags = static_cast<short>(state == PortState::Up ? flags | IFF_UP : flags & ~IFF_UP);
  return ::ioctl(socket.get(), SIOCSIFFLAGS, &request) == 0;
}

bool is_soft_roce() {
  const Host host = open_first(Side::Left);
  if (host.provider == nullptr) return false;
  const verbs::ContextHandle context(*host.provider, host.provider->open_device(host.device));
  ibv_device_attr attr{};
  return context && host.provider->query_device(context.get(), &attr) == 0 &&
         attr.vendor_id == kSoftRoceVendor;
}

// The traits of soft-RoCE in Linux 6.1 with rdma-core 44. They are the driver's own behaviour, and
// none of them hides an error of ours.
Traits soft_roce_traits() {
  Traits traits;
  traits.exact_room = false;       // depths are rounded up to 2^n - 1 without telling the caller
  traits.room_by_polling = false;  // the kernel advances the queue's consumer index as it executes
  traits.flushes_late_receives = false;  // posting a receive does not enter the kernel
  traits.checks_counts = false;          // any number is accepted
  traits.write_not_granted = IBV_WC_REM_INV_REQ_ERR;
  traits.wrong_local_key = IBV_WC_LOC_QP_OP_ERR;
  traits.forgets_destroyed = false;  // a separate task flushes; completions that it has queued stay
  traits.too_long_send = IBV_WC_REM_OP_ERR;
  traits.too_long_receive = IBV_WC_LOC_QP_OP_ERR;
  traits.port_down = IBV_WC_LOC_QP_OP_ERR;  // at once: an interface that is down takes no packet.
                                            // A pulled cable differs
  return traits;
}

ProviderKind kind() {
  ProviderKind kind{"Rdma", open_first, {}};
  // The port of a real adapter serves others as well, so no test takes it down.
  if (is_soft_roce()) kind = {"SoftRoce", open_first, soft_roce_traits(), set_port};
  // Long enough for a host that is shared, emulated, or both: 0.13 s a try.
  kind.traits.timeout = 15;
  kind.traits.retry_count = 3;
  kind.traits.settle_ns = 100'000'000;
  return kind;
}

}  // namespace

std::vector<ProviderKind> rdma_kinds() { return {kind()}; }

}  // namespace mesh::contract
