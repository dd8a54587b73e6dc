#pragma once
// The report that rank 0 prints and writes: nccl-tests' table, or perftest's of latencies, and the
// figures as a result file. Figures of the software fabric are always marked. Thread: one owner.

#include "perf/mesh_perf/row.h"

#include <vector>

namespace mesh::perf {

void print_header(const Options& options, const Ground& ground);
void print_row(const Options& options, const Row& row);
void print_footer(const Options& options, const std::vector<Row>& rows);
// Returns false, after a line on stderr, if the file cannot be written.
bool write_json(const Options& options, const Ground& ground, const std::vector<Row>& rows);

}  // namespace mesh::perf
