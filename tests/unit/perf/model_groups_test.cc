// The bar of one-shot all-reduce in the model.

#include "perf/model/groups.h"
#include "tests/unit/perf/model_bed.h"

namespace mesh::model {
namespace {

// From NCCL's call to the last host's end, with the sums.
TEST(ModelGroups, OneShotAllReducesOfFourHostsTakeAFewMicroseconds) {
  Options options;
  options.spec.paths = {200};
  const GroupPoint mesh = measure_group(options, "full-mesh", 4, 48 * 1024);
  const GroupPoint ring = measure_group(options, "ring", 4, 48 * 1024);
  EXPECT_EQ(mesh.steps, 1u) << mesh.why;
  EXPECT_EQ(ring.steps, 2u) << ring.why;
  show("one-shot: 48 KiB, full mesh of four at 200 Gb/s, us", mesh.us, 15);
  show("one-shot: 48 KiB, ring of four at 200 Gb/s, us", ring.us, 20);
  EXPECT_LE(mesh.us, 15);
  EXPECT_LE(ring.us, 20);
}

}  // namespace
}  // namespace mesh::model
