#pragma once
// The parts of a host that data goes through, as hwloc knows them, and the ways from a NIC to the
// CPU packages, memory nodes and GPUs, with the kind and the width of each. Thread: any (values);
// the parts are read at start-up. Bounds: kPartsMax parts; the time is the product of the parts and
// the joints.

#include <mesh/status.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace mesh::topo {

inline constexpr std::size_t kPartsMax = 4096;

enum class PartKind : std::uint8_t {
  Device,      // a PCI function
  Bridge,      // a port of a PCIe switch, or of the host
  HostBridge,  // the top of a PCI tree
  Memory,      // a NUMA node with its CPUs, which NCCL calls CPU
  Package,     // a socket
};

struct Part {
  PartKind kind = PartKind::Device;
  std::string name{};     // "0000:1b:00.0", "memory node 0", "CPU package 0"
  bool gpu = false;       // the device is one
  std::string os_name{};  // of a GPU, "cuda0"; empty: the operating system gives none
};

// Two parts that data goes between, in either direction.
inline constexpr double kWide = 1e9;  // within a CPU: it never is the narrowest
struct Joint {
  std::size_t a = 0, b = 0;
  double gbps = 0;  // 0: not known
};

struct HostParts {
  std::vector<Part> parts;
  std::vector<Joint> joints;
};

// The most distant thing that a way goes through; the nearest kind comes first.
enum class WayKind : std::uint8_t {
  Switch,      // one PCIe switch
  Switches,    // several of them, and no host bridge
  HostBridge,  // one host bridge
  Memory,      // two host bridges of one NUMA node
  Package,     // two NUMA nodes of one CPU package
  Sockets,     // two CPU packages
};
const char* kind_text(WayKind kind);
// Returns the name of the class that NCCL gives such a way: one of its PATH_..., by the rules of
// its ncclTopoSetPaths (both in NCCL's graph folder). NCCL counts NUMA nodes as CPUs.
const char* nccl_class(WayKind kind);

struct Way {
  std::size_t to = 0;  // a part
  WayKind kind = WayKind::Switch;
  double gbps = 0;       // of its narrowest joint of known width; 0: none is known
  bool at_most = false;  // it has a joint of unknown width
  friend bool operator==(const Way&, const Way&) = default;
};

// Returns the ways from that part to every package, memory node and GPU that it reaches, in the
// order of the parts. Of several ways to one part it takes the nearest kind, and of those the
// widest.
std::vector<Way> ways_from(const HostParts& host, std::size_t from);

// Returns the index of the part of that name, or SIZE_MAX if there is none.
std::size_t part_named(const HostParts& host, const std::string& name);

struct PartsSource {
  std::string hwloc_library = "libhwloc.so.15";
  std::string xml = {};  // a topology as lstopo exports it; empty: this host
};
// Reads the parts of this host. Returns NotFound if there is no hwloc, or it reads nothing here; a
// line said so.
Result<HostParts> read_host_parts(const PartsSource& source = {});

}  // namespace mesh::topo
