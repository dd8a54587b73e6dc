#pragma once
// Finds out which ports are on one wire, where addresses do not tell it: all hosts greet each
// other's ports by datagrams at one time, and a port that hears a greeting is on the wire over
// which it was sent. Thread: one. Bound: one datagram a round for each pair of ports in doubt.

#include "perf/driver/bootstrap.h"
#include "perf/mesh_doctor/cabling.h"
#include "perf/mesh_doctor/shared_subnets.h"
#include "src/verbs/cable_datagrams.h"

#include <memory>
#include <vector>

namespace mesh::doctor {

using CableEnds = std::vector<std::unique_ptr<verbs::CableDatagrams>>;  // by rail; null: none

// Finds out the cables between all hosts of the run, each of which calls this. Sends nothing if no
// addresses leave a choice. Fails if a host is lost.
Result<Proofs> find_cables(driver::Bootstrap& bootstrap, const CableEnds& ends,
                           const std::vector<HostRails>& hosts);

}  // namespace mesh::doctor
