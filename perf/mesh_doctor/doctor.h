#pragma once
// One run of the doctor in one process: reads the facts of this host, shares them with the other
// hosts, looks at what lies between them, and reports on rank 0. Thread: one owner. Bound: the
// timeout of the options.

#include "perf/mesh_doctor/options.h"
#include "perf/mesh_doctor/report.h"

namespace mesh::doctor {

int run_doctor(const Options& options);  // the exit status

}  // namespace mesh::doctor
