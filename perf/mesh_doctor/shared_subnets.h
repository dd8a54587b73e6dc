#pragma once
// Judges what datagrams have told of the cables between hosts, where these share a subnet. Thread:
// any (values). Bound: the rails of the run's hosts.

#include <mesh/status.h>

#include "perf/mesh_doctor/cabling.h"
#include "perf/mesh_doctor/finding.h"
#include "src/topo/pairing.h"

#include <cstddef>
#include <string>
#include <vector>

namespace mesh::doctor {

// proofs[j][i] is what host j has found out about host i < j, whose rails are the local ones.
using Proofs = std::vector<std::vector<topo::CableProof>>;

// Writes the proofs of one host with each host before it.
std::string proofs_text(const std::vector<topo::CableProof>& proofs);
// Returns Protocol if the text is not of proofs_text(), or not about `hosts` hosts.
Result<std::vector<topo::CableProof>> proofs_from(const std::string& text, std::size_t hosts);

// Returns true if none of the ports of the two hosts that may meet does, because each pair of them
// has a port with a cable to another host.
bool are_cabled_elsewhere(const Proofs& proofs, std::size_t host, std::size_t other);
// Returns a finding for each two hosts that have cables in one subnet, and for those whose ports
// answer no datagram. The ports of a switch have none.
std::vector<Finding> shared_subnets(const Cabling& cabling, const Proofs& proofs);

}  // namespace mesh::doctor
