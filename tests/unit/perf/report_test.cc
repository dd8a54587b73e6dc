#include "perf/mesh_perf/report.h"

#include "tests/prelude.h"

namespace mesh::perf {
namespace {

// The time of a round has the pause behind it, and no column of a latency may have that.
TEST(Report, TheMeanOfLatenciesLeavesOutThePauses) {
  Options options;
  options.kind = Kind::Latency;
  options.pause_ms = 100;
  Row row;
  row.bytes = 8;
  row.time_us = 100'006;
  row.latency_us = results::latency_of({1, 2, 6});
  testing::internal::CaptureStdout();
  print_row(options, row);
  EXPECT_EQ(testing::internal::GetCapturedStdout(),
            "           8          3      1.00      2.00      3.00      6.00      6.00    N/A\n");
}

}  // namespace
}  // namespace mesh::perf
