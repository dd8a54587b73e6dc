#pragma once
// A fabric file: which hosts exist, which NICs they have and which cables or switches join them.
// JSON, validated whole; a value of this type is always consistent. Thread: any (values). Bounds:
// kHostsMax hosts, kNicsMax NICs a host, kFileBytesMax of text.

#include <infiniband/verbs.h>
#include <mesh/status.h>

#include "src/soft/fault_plan.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace mesh::soft {

inline constexpr std::size_t kHostsMax = 256;
inline constexpr std::size_t kNicsMax = 16;
// 256 hosts of 16 NICs with a link each are about 700 KiB, written out with spaces.
inline constexpr std::size_t kFileBytesMax = 4 << 20;

struct NicSpec {
  std::string name;
  std::string address;  // "10.0.12.1", without the prefix
  ibv_gid gid{};        // of the address; IPv4 is mapped into ::ffff:0:0/96
  int prefix_len = 0;   // in bits of the address' family
  bool ipv4 = true;
  std::uint64_t guid = 0;  // equal for the halves of one cable
  std::string pci;         // sysfs path, empty: none
  int numa = -1;
  int link = -1;  // index into FabricFile::links; -1: nothing is plugged in
  double gbps =
      0;  // what its bus carries, as a PCIe half may less than its cable does; 0: all of the link
};

struct HostSpec {
  std::string name;
  std::vector<NicSpec> nics;
};

struct NicRef {
  int host = 0, nic = 0;  // indices
};

struct LinkSpec {
  std::vector<NicRef> ends;  // two of a cable, two or more of a switch
  double gbps = 0;           // each direction; 0: as fast as memory
  std::uint64_t delay_ns = 0;
  std::uint32_t mtu = 4096;
  double qp_gbps = 0;    // what one queue pair can use; 0: all
  double port_gbps = 0;  // what its ports say they are; 0: gbps
  std::string cable;  // links of one name are the halves of one cable and share its gbps; empty: a
                      // cable of its own
};

// What a work request costs beside the wire. 0: nothing. Only a manual clock can make the host's
// own three cost time.
struct NicCosts {
  std::uint64_t quantum_bytes = 16384;  // one queue pair's turn on the wire
  std::uint64_t fetch_ns =
      0;  // until the NIC has read a work request that is not inline; others overtake meanwhile
  std::uint64_t post_ns = 0;        // the host's, per work request
  std::uint64_t doorbell_ns = 0;    // the host's, per call of post_send
  std::uint64_t completion_ns = 0;  // the host's, per completion polled
};

// A fabric that counts instead of moving: one host, no links, no faults (src/soft/null_fabric.h).
struct NullSpec {
  std::uint32_t delivery_polls =
      1;  // what is posted is delivered by the n-th poll after it; 0: while posting, polls tell
};

struct FabricFile {
  std::string name;
  std::string identity;  // hosts meet under this: of a file its path and text, of parsed text also
                         // the process that parsed it
  std::vector<HostSpec> hosts;
  std::vector<LinkSpec> links;
  std::vector<Fault> faults;  // each armed on its host when that is opened
  NicCosts costs;             // of every NIC
  std::optional<NullSpec> null;

  int find_host(const std::string& host) const;  // index or -1
  bool find_gid(const ibv_gid& gid, NicRef* out) const;
  const NicSpec& nic(NicRef ref) const {
    return hosts[static_cast<std::size_t>(ref.host)].nics[static_cast<std::size_t>(ref.nic)];
  }
  bool find_nic(const std::string& host, const std::string& name_of_nic, NicRef* out) const;
  // False: no such NIC, or it is not at a cable of two ends.
  bool other_end(const std::string& host, const std::string& name_of_nic, NicRef* out) const;
};

// InvalidArgument: not JSON, or contradictory; one line says what, where and what would be right.
Result<FabricFile> parse(const std::string& text);
// NotFound: no such file, or it cannot be read. InvalidArgument: also of what is no regular file or
// is too long. Never blocks.
Result<FabricFile> load(const std::string& path);

}  // namespace mesh::soft
