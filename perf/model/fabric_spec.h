#pragma once
// Two hosts and the cables between them, or a row of hosts, as numbers. They give the text of a
// fabric file, and the goodput that its wires allow. Rates are in Gb/s. Thread: any (values).

#include <mesh/policy.h>

#include "src/soft/fabric_file.h"

#include <cstdint>
#include <string>
#include <vector>

namespace mesh::model {

// The defaults are those of a modern NIC, each from a published source:
// - Headers are 82 bytes for a packet, 16 more on the first, and 4 more with immediate data: RoCE
//   v2 over IPv4, RC WRITE (src/soft/wire_model.h).
// - Costs are those of UCX's model of mlx5: post 75 ns through libibverbs, doorbell 40 ns,
//   completion 20 ns, fetch of a work request 350 ns.
// - A half moves 109 Gb/s, as a PCIe Gen5 x4 function does at 128-byte payloads. NVIDIA's DGX Spark
//   shows each port twice in this way.
// - The delay is 600 ns. With the costs above an 8-byte message takes 0.8 us, the lower end of what
//   is measured (0.8 to 1.5).
// - The quantum is 16 KiB of payload: how much one queue pair sends before another does, rounded up
//   to whole packets. No vendor documents it, so it is a parameter of every run.
struct FabricSpec {
  std::vector<double> paths = {100};  // rate of each cable, or of the one cable with halves
  double half = 0;                    // above 0: the one cable is two NICs of this rate
  double qp_cap = 0;                  // what one queue pair can use; 0: all
  double port = 0;                    // the rate that every port shows; 0: the true one
  std::uint32_t via = 0;              // above 0: so many middle hosts, in a row of one cable each
  bool ring = false;                  // one more cable joins the last of them with the first
  std::uint32_t mtu = 4096;
  std::uint64_t delay_ns = 600;
  std::uint64_t quantum_bytes = 16384;
  std::uint64_t fetch_ns = 350, post_ns = 75, doorbell_ns = 40, completion_ns = 20;
};

inline constexpr std::uint32_t kViaMax = 3;

// Returns the text of a fabric file, for soft::parse().
std::string fabric_text(const FabricSpec& spec);
// The hosts h0, h1, ... with a cable of the first path's rate between each of these pairs.
using Cables = std::vector<std::pair<std::size_t, std::size_t>>;
std::string fabric_text(const FabricSpec& spec, std::size_t hosts, const Cables& cables);

// Returns the traits of the first host's rails that tuning needs: how many they are.
FabricTraits traits_of(const soft::FabricFile& fabric);

}  // namespace mesh::model
