#pragma once
// The time before a log line, by which the lines of several hosts can be put in one order. Lines
// that go to NCCL's logger get NCCL's time. Thread: any. Bound: none.

#include <mesh/config.h>

#include <string>

namespace mesh {

void set_log_times(bool on) noexcept;  // lines to stderr begin with their time
std::string log_time();                // now, in UTC: "2026-11-28T16:05:09.123456Z "

// Returns true if NCCL_MESH_LOG ends with "+time".
bool wants_log_times(const Settings& settings) noexcept;

}  // namespace mesh
