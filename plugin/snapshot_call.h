#pragma once
// The function by which a program in the process of a job asks the plugin for its snapshot
// (src/base/snapshot_json.h); plugin/README.md describes it. Thread: any; it locks, and may wait
// for the firmware of ports. Bound: that of the snapshot.

#include <cstddef>

extern "C" {

// Writes the snapshot's JSON with a final NUL, cut to `bytes`. Returns the length of the whole JSON
// without the NUL, or 0 if there is none, as in a forked child. `text` may be null if bytes is 0.
[[gnu::visibility("default")]] std::size_t nccl_mesh_snapshot(char* text,
                                                              std::size_t bytes) noexcept;
}
