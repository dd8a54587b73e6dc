#pragma once
// The table that mesh_tune prints, and the files that it writes. Thread: any.

#include "perf/mesh_tune/options.h"
#include "perf/mesh_tune/tuner.h"

namespace mesh::tune {

void print_plan(const Options& options);
void print_report(const Options& options, const Report& report);
// Writes the settings, and with --json all of the report. Returns false, after a line on stderr, if
// a file could not be written.
bool write_files(const Options& options, const Report& report);

}  // namespace mesh::tune
