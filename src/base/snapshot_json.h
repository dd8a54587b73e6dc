#pragma once
// All that a process's plugin tells of itself at one moment, as JSON: one table of fields writes
// it, reads it, and documents it in plugin/REFERENCE.md. Programs read this and never a line of the
// log. A field may be added at any time; kSnapshotSchema rises if one goes or changes its meaning.
// Thread: any (values). Bound: that of EngineSnapshot; a text that is read, kSnapshotBytesMax.

#include <mesh/snapshot.h>
#include <mesh/status.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mesh {

inline constexpr std::uint64_t kSnapshotSchema = 1;
inline constexpr std::size_t kSnapshotBytesMax = std::size_t{256} << 20;

// Facts about the process that the engine does not know.
struct ProcessFacts {
  int process = 0;
  std::uint64_t start_s = 0, now_s = 0;                  // since the epoch
  std::uint64_t interval_s = 0;                          // between two pages
  bool running = true;                                   // false: this is the last page
  std::uint64_t one_shot_calls = 0, one_shot_bytes = 0;  // on the page of metrics alone
};

struct SettingSnapshot {
  std::string name, value;
};

struct Snapshot {
  std::uint64_t schema = kSnapshotSchema;
  std::string plugin;  // its version, "0.1.0"
  ProcessFacts process;
  std::string fabric;   // "rdma" or "soft"; empty: no provider was opened
  std::string no_rdma;  // why libibverbs cannot be used, for people; empty: it can, or is not asked
  // The result of the latest start, "ok" or the name of an error. The lines tell people why a start
  // failed; empty: it did not.
  std::string start;
  std::vector<std::string> start_lines;
  std::vector<SettingSnapshot> settings;
  std::vector<std::string> warnings;  // newest of this engine, for people
  EngineSnapshot engine;
};

std::string to_json(Snapshot snapshot);  // one line
// Returns Protocol if the text is no such snapshot, or one of another schema; `why` says so.
Result<Snapshot> snapshot_from(std::string_view text, std::string* why);

}  // namespace mesh
