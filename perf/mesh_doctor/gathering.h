#pragma once
// Gathers the hosts of a run, and tells which ones did not come. Thread: one owner. Bound: the
// options' wait.

#include "perf/driver/bootstrap.h"
#include "perf/mesh_doctor/finding.h"
#include "perf/mesh_doctor/options.h"

#include <string>
#include <vector>

namespace mesh::doctor {

// Returns a bootstrap of this host alone if there is no rendezvous, or if others do not come;
// `missing` then gets a finding for each. Fails if the rendezvous itself cannot be; `why` says so.
Result<driver::Bootstrap> gather_hosts(const Options& options, std::vector<Finding>& missing,
                                       std::string& why);

}  // namespace mesh::doctor
