#pragma once
// The figures of a run as rank 0 has them, and the report that it prints and writes: nccl-tests'
// table, or perftest's of latencies, and a result file. Figures of the software fabric are always
// marked. Thread: one owner.

#include "perf/mesh_perf/ground.h"
#include "perf/results/result.h"

#include <cstddef>
#include <optional>
#include <vector>

namespace mesh::perf {

struct Figures {
  double time_us = 0;                     // of one iteration, mean over the ranks
  double time_us_max = 0;                 // of the slowest rank
  double algbw_gbps = 0, busbw_gbps = 0;  // 10^9 bytes a second
  // CPU time of all ranks for 10^9 bytes that they sent. 0: nothing was sent.
  double cpu_seconds_per_gb = 0;
  std::size_t wrong = 0;
  int checks = 0;  // 0: nothing was verified
};

// One size. Its own figures are those out of place.
struct Row : Figures {
  std::size_t bytes = 0, count = 0;
  int iterations = 0;
  std::optional<Figures> in_place;
  double messages_per_us = 0;  // that one rank sends; 0 on a ring
  double memcpy_gbps = 0;      // 0: not measured
  // For Kind::Latency one way, for an all-reduce from its begin to its end on this rank.
  std::optional<results::Latency> latency_us;
};

std::size_t total_wrong(const std::vector<Row>& rows) noexcept;

// Returns everything about the run, for --json.
results::File result_file(const Options& options, const Ground& ground,
                          const std::vector<Row>& rows);

void print_header(const Options& options, const Ground& ground);
void print_row(const Options& options, const Row& row);
void print_footer(const Options& options, const std::vector<Row>& rows);
// Returns false, after a line on stderr, if the file cannot be written.
bool write_json(const Options& options, const Ground& ground, const std::vector<Row>& rows);

}  // namespace mesh::perf
