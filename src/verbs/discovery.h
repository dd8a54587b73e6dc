#pragma once
// Finds the usable rails of this host: devices that NCCL_IB_HCA allows, their active ports, GIDs
// chosen by type and address (never by a fixed index), subnets and MTU. Thread: any, at start-up.
// Bound: kRailsMax.

#include <mesh/config.h>
#include <mesh/engine.h>
#include <mesh/snapshot.h>
#include <mesh/status.h>

#include "src/base/thread_pool.h"
#include "src/verbs/open_device.h"
#include "src/verbs/port_view.h"
#include "src/verbs/provider.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace mesh::verbs {

// Returns the place of each device among all of them, by PCI address and then by name: an order
// that hosts of one make agree about.
std::vector<std::uint16_t> device_places(std::span<const DeviceEntry> devices);

// The most rails of a host. A frame has room for as many (engine/control/frames.h).
inline constexpr std::size_t kRailsMax = 64;

struct Rail {
  RailInfo info;
  // One open device context for each rail, so that rails share nothing. Another one takes its place
  // when the card was replaced.
  OpenDevice context;
  // At least one, the preferred one first. The pairing chooses which of them speaks to a peer.
  // prefix_len comes from the net device or NCCL_MESH_PREFIX_LEN.
  std::vector<GidEntry> gids;
  std::uint16_t lid = 0;
  std::uint16_t pkey_index = 0;         // of an InfiniBand port: where it has our partition key
  std::uint16_t pkey = 0xffff;          // that key; the top bit tells a full member
  bool ethernet = true;                 // link layer
  bool global_header_required = false;  // an InfiniBand port that takes no packet without a GID
  // Rails of two hosts with equal identity may meet. It is made of the rail and plane that
  // NCCL_IB_HCA assigns, or else of the device's place by PCI address among those that NCCL_IB_HCA
  // allows, and of the port. Ports that are down count too: hosts of one make agree whatever is
  // down.
  std::uint32_t identity = 0;
  bool leaves_site = true;  // it may carry what goes to another site (mark_site_rails())
  bool up = true;           // its port was active when it was looked at
  std::string slot;         // as in DeviceEntry
  std::uint32_t slot_mbps = 0;
  // Keeps what was seen of its port last; null: whoever asks waits for the device.
  std::unique_ptr<PortView> view{};
  ibv_mtu active_mtu = IBV_MTU_1024;
  int cq_entries_max = 0;
  int qp_wr_max = 0;
  std::uint32_t inline_bytes_max = 0;   // what its queue pairs take inline; 0: not known
  std::uint32_t message_bytes_max = 0;  // largest work request
};

// Returns the rails, sorted by the PCI address of their device and by port: first those that are
// up, which become NCCL's devices, then those whose port is down but has an address that tells
// where it belongs. The latter take their place when they come up. Returns NotFound if no rail is
// up; one line says what was looked at and why each port is no rail. `refused`, if it is not null,
// gets the ports that are no rails. On threads of a pool all devices are asked at a time, and one
// that has not answered kCardLookToLateNs after the last answer is left out if another has a port
// that is up. A thread waits for the device meanwhile, and uses the provider and the settings.
Result<std::vector<Rail>> discover(Provider& provider, const Settings& settings,
                                   std::vector<RefusedPort>* refused = nullptr,
                                   ThreadPool* pool = nullptr);

std::string address_text(const GidEntry& gid);  // with its prefix, "10.0.12.1/24"
// Returns the last part of the rail's path in sysfs, "0000:01:00.0"; empty: no PCI parent.
std::string pci_address(const RailInfo& info);

// Marks the rails of this host that leave its site, as NCCL_MESH_SITE_RAILS says. Returns
// InvalidArgument if an entry names no rail or the host has no site; one line says what
// there is.
Status mark_site_rails(std::span<Rail> rails, const Settings& settings);

}  // namespace mesh::verbs
