// mesh_micro times the parts of a message's way on this machine. For counts that repeat, see
// perf/instructions.
#include "src/base/log.h"

#include <benchmark/benchmark.h>

int main(int argc, char** argv) {
  mesh::set_log_level(mesh::LogLevel::Warn);
  benchmark::AddCustomContext("fabric", "null: no payload is copied; real time of this machine");
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
