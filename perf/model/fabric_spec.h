#pragma once
// Two hosts and what joins them, as numbers: from it a fabric file's text, and the goodput its
// wires allow. Thread: any (values). Rates in Gb/s.

#include <mesh/policy.h>

#include "src/soft/fabric_file.h"

#include <cstdint>
#include <string>
#include <vector>

namespace mesh::model {

// The defaults are a modern NIC's, each from a published source:
//   headers   82 bytes a packet, 16 on the first, 4 with immediate data: RoCE v2 over IPv4, RC
//   WRITE (src/soft/wire_model.h) costs     UCX's model of mlx5: post 75 ns through libibverbs,
//   doorbell 40 ns, completion 20 ns, work-request fetch 350 ns half      109 Gb/s: what a PCIe
//   Gen5 x4 function moves at 128-byte payloads, as NVIDIA's DGX Spark shows each port twice delay
//   600 ns: with the costs above an 8-byte message takes 0.8 us, the lower end of what is measured
//   (0.8 to 1.5) quantum   16 KiB: how long one queue pair keeps the wire. Not documented by any
//   vendor, therefore a parameter of every run
struct FabricSpec {
  std::vector<double> paths = {100};  // a cable each; one cable's rate with halves
  double half = 0;                    // above 0: the one cable is two NICs of this rate
  double qp_cap = 0;                  // what one queue pair can use; 0: all
  double port = 0;                    // what every port says it is; 0: the truth
  std::uint32_t mtu = 4096;
  std::uint64_t delay_ns = 600;
  std::uint64_t quantum_bytes = 16384;
  std::uint64_t fetch_ns = 350, post_ns = 75, doorbell_ns = 40, completion_ns = 20;
};

inline constexpr double kHalfGbps = 109;

// For soft::parse().
std::string fabric_text(const FabricSpec& spec);

// What the first host's rails look like to tuning: how many, and how many of them are one cable.
FabricTraits traits_of(const soft::FabricFile& fabric);

}  // namespace mesh::model
