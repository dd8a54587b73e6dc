#pragma once
// The calls of v10 and later for a job that NCCL's profiler watches. They do what the calls of
// plugin/calls.h do, and tell the profiler what each request's queue pairs carry. A process decides
// at init which set it uses, so that a job that nobody watches pays nothing: NCCL passes a callback
// and handles even without a profiler. Thread: as NCCL calls them. They lock and may allocate.

#include "plugin/nccl/versions.h"

namespace mesh::plugin {

// Writes the calls into the tables after a successful init: these if NCCL passes a callback and
// NCCL_PROFILER_PLUGIN names a profiler, else the usual ones. Does nothing while a comm is open.
void choose_calls(ncclProfilerCallback_t profiler) noexcept;

}  // namespace mesh::plugin
