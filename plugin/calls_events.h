#pragma once
// The calls of v10 and later for a job that NCCL's profiler watches: they do what those of
// plugin/calls.h do, and tell the profiler what each request's queue pairs carry. Which set a
// process uses is decided at its init, so that a job that nobody watches pays nothing for it: NCCL
// passes a callback and handles whether a profiler is loaded or not. Thread: as NCCL calls them.
// They lock and may allocate.

#include "plugin/nccl/versions.h"

namespace mesh::plugin {

// At a successful init: the tables get these calls if NCCL passes a callback and
// NCCL_PROFILER_PLUGIN names a profiler, and the usual ones otherwise. While a comm is open the
// tables stay as they are.
void choose_calls(ncclProfilerCallback_t profiler) noexcept;

}  // namespace mesh::plugin
