#pragma once
// How the hosts of a run find each other, and who did not come. Thread: one owner. Bound: the
// options' wait.

#include "perf/driver/bootstrap.h"
#include "perf/mesh_doctor/finding.h"
#include "perf/mesh_doctor/options.h"

#include <string>
#include <vector>

namespace mesh::doctor {

// Without a rendezvous this host is the only one, and so it is when others do not come: then
// `missing` gets a finding for each. No answer: the rendezvous itself cannot be, and `why` says so.
Result<driver::Bootstrap> gather_hosts(const Options& options, std::vector<Finding>& missing,
                                       std::string& why);

}  // namespace mesh::doctor
