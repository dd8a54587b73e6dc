#pragma once
// What rank 0 prints and writes: nccl-tests' table, its footer, and the same as JSON. Figures of the software fabric are
// always called so. Thread: one owner.

#include "perf/mesh_perf/ground.h"

#include <cstddef>
#include <string>
#include <vector>

namespace mesh::perf {

struct Row {
  std::size_t bytes = 0, count = 0;
  double time_us = 0;                     // of one iteration, mean over the ranks
  double time_us_max = 0;                 // of the slowest rank
  double algbw_gbps = 0, busbw_gbps = 0;  // 10^9 bytes a second
  std::size_t wrong = 0;
  int checks = 0;          // 0: nothing was verified
  double memcpy_gbps = 0;  // 0: not measured
};

void print_header(const Options& options, const Ground& ground);
void print_row(const Options& options, const Row& row);
void print_footer(const std::vector<Row>& rows);
bool write_json(const Options& options, const Ground& ground, const std::vector<Row>& rows);

std::size_t total_wrong(const std::vector<Row>& rows) noexcept;

}  // namespace mesh::perf
