#pragma once
// The look at what lies between the hosts of a run: the network on which links are agreed upon
// (NCCL_SOCKET_IFNAME), the cabling map, and the rates of the cables. All hosts go through its
// steps at the same time. Thread: one owner, every rank. Bound: kHandshakeMsMax for the network,
// kStepsMax steps of some seconds each for the cables.

#include "perf/driver/bootstrap.h"
#include "perf/mesh_doctor/doctor.h"
#include "perf/mesh_doctor/finding.h"
#include "perf/mesh_doctor/host_facts.h"

#include <cstddef>
#include <string>
#include <vector>

namespace mesh::doctor {

// Complete at rank 0, empty at the other ranks.
struct BetweenHosts {
  std::vector<Finding> findings;
  std::vector<std::string> sections;  // text for people
  std::string json;                   // an object with the members "cables" and "order"
  bool whole = true;                  // false: a host was lost, and findings name it
  bool written = true;                // every file that was asked for; a failure has been reported
};

// own: this host's facts, whose PCIe widths bound the expected rates.
BetweenHosts look_between(driver::Bootstrap& bootstrap, const HostFacts& own,
                          const Options& options);

inline constexpr int kHandshakeMsMax = 2000;
inline constexpr std::size_t kHandshakeAddressesMax = 8;

struct HandshakeLook {
  std::vector<Finding> findings;
  std::vector<std::string> addresses;  // by host: "10.1.0.1 (eth0)"
  bool lost = false;                   // true: a host was lost
};
HandshakeLook look_at_handshake(driver::Bootstrap& bootstrap,
                                const std::vector<std::string>& hosts);

}  // namespace mesh::doctor
