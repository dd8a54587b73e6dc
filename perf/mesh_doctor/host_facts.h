#pragma once
// The facts that were read on one host. Every host sends its facts to rank 0 as JSON, and the
// checks are pure functions of them. A number of -1 and an empty text mean "not known", unless a
// field says differently. Thread: any (values). Bound: the ports and files of the host.

#include <mesh/snapshot.h>
#include <mesh/status.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace mesh::doctor {

struct Address {
  std::string text;  // with its prefix, "10.0.12.1/24"
  int gid_index = -1;
};

// A device as the plugin offers it to NCCL.
struct RailFacts {
  int index = -1;
  std::string name;                // "mlx5_0:1"
  std::string pci;                 // "0000:01:00.0"
  std::vector<Address> addresses;  // the preferred one first
  std::string gid_type;            // "RoCE v2"
  int mtu = -1;                    // of RDMA packets
  int speed_mbps = -1;             // as NCCL is told
  int numa_node = -1;
  int port = -1;
  int pointers = 0;  // NCCL_PTR_... bits
  std::uint64_t guid = 0;
};

struct GidFacts {
  int index = -1;
  std::string gid;   // "0000:...:ffff:0a00:0c01"
  std::string type;  // as the kernel writes it: "RoCE v2", "IB/RoCE v1"
  std::string netdev;
};

using Counters = std::map<std::string, std::int64_t>;

// How an Ethernet port sends packets of different kinds. Empty parts are not known.
struct TrafficClasses {
  std::vector<int> limit_mbps;          // by traffic class; 0: no limit
  std::vector<int> of_priority;         // the traffic class of each priority
  std::map<int, int> priority_of_dscp;  // empty: the service level is the priority
};

// A port that the plugin does not offer, in its own words.
struct RefusalFacts {
  std::string port;  // "mlx5_0:1", or "mlx5_0" for all ports of a device
  RefusalKind kind = RefusalKind::Unusable;
  std::string reason;
};

// A card that did not answer a command in time.
struct SilentCard {
  std::string card;  // "mlx5_0"
  std::string call;  // "ibv_query_port"
  int waited_ms = 0;
};

// A port of the kernel's RDMA devices, rail or not.
struct PortFacts {
  std::string name;  // "mlx5_0:1"
  std::string device;
  int port = -1;
  std::string link_layer;  // "Ethernet", "InfiniBand"
  std::string state, physical_state;
  int rate_mbps = -1;     // now
  int capable_mbps = -1;  // the most that the port supports
  std::string netdev;
  int netdev_mtu = -1;
  std::string pci;
  std::uint64_t cable = 0;  // equal for both PCIe halves of a socket; 0: not known
  std::string card;         // the system image GUID, which all functions of a card share
  std::string other_half;   // the port that shows this socket over other PCIe lanes
  std::vector<GidFacts> gids;
  int arp_ignore = -1;     // 0: the kernel answers for the addresses of all interfaces
  std::string verbs_file;  // "/dev/infiniband/uverbs0"; empty: it is not there
  TrafficClasses classes;
  Counters counters, counters_later;
};

// A PCI function of a network card, and what it and its slot can do.
struct PcieFacts {
  std::string pci;
  std::string id;      // "15b3:1021"
  std::string device;  // the RDMA device; empty: it has none
  int width = -1, width_max = -1;
  double gts = -1, gts_max = -1;  // of a lane: now, and at most
  std::string iommu;              // "identity", "DMA", "DMA-FQ"
};

// A file that the loader or Python would find.
struct LibraryFacts {
  std::string found_by;  // "LD_PRELOAD", "LD_LIBRARY_PATH", "ld.so.cache", "torch", ...
  std::string path;
  std::string file;     // the path without links
  std::string version;  // as the file tells it
  bool ours = false;    // true: this plugin is nccl-mesh
};

struct SettingFacts {
  std::string name, value;
  std::string source;  // "the environment", or a file
};

struct MachineFacts {
  std::string product;    // "NVIDIA DGX Spark"
  std::string processor;  // "aarch64"
  std::string kernel;     // "7.0.0-31-generic"
  std::int64_t memlock_bytes = -1;
  bool memlock_unlimited = false;
  bool may_lock = false;  // whatever the limit is
  std::int64_t memory_kib = -1, cma_total_kib = -1, cma_free_kib = -1;
  std::int64_t huge_pages = -1, huge_pages_free = -1, huge_page_kib = -1;
  std::vector<std::string> gpus;     // PCI addresses
  bool has_gb10 = false;             // the chip of a DGX Spark, whoever made the machine
  std::vector<std::string> modules;  // kernel modules that concern GPU memory
  bool acs_known = true;
  std::vector<std::string> acs_bridges;  // they send traffic between devices by way of the CPU
  std::vector<std::string> interfaces;
  int ip_forward = -1;         // 1: it routes packets for others
  std::string forward_policy;  // what it does with them if no rule says: "accept", "drop"
};

// The libraries that a job started from here would take.
struct SoftwareFacts {
  std::vector<LibraryFacts> nccl;            // the loader's, then torch's
  std::vector<LibraryFacts> plugins;         // that NCCL would load, in its order
  std::vector<std::string> missing_plugins;  // that NCCL_NET_PLUGIN names and nobody finds
  std::vector<std::string> verbs_providers;  // files of libibverbs' drivers
  std::vector<SettingFacts> settings;        // the effective ones, and those that they hide
};

struct HostFacts {
  std::string host;
  std::string plugin;  // "Mesh (ncclNet v12)"; empty: it is not loaded
  std::string plugin_file, plugin_version;
  std::string plugin_error;
  std::string no_rdma;  // why the plugin cannot use libibverbs; empty: it can
  std::vector<RailFacts> rails;
  std::vector<RefusalFacts> refused;
  std::vector<SilentCard> silent;  // nothing more is asked of these cards
  std::vector<std::string> notes;  // sentences about ports that are no rails, for people
  std::vector<PortFacts> ports;
  std::vector<PcieFacts> pcie;
  SoftwareFacts software;
  MachineFacts machine;
};

std::string to_text(const HostFacts& facts);
// Returns Protocol if the text is not of to_text().
Result<HostFacts> facts_from(const std::string& text);

}  // namespace mesh::doctor
