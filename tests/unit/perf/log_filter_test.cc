#include "perf/driver/log_filter.h"

#include "tests/prelude.h"

namespace mesh::driver {
namespace {

constexpr unsigned long kColl = 0x2;

TEST(LogFilter, ShowsWhatAUserOfInfoSees) {
  const LogFilter filter = LogFilter::from({});
  EXPECT_TRUE(filter.passes(NCCL_LOG_WARN, NCCL_ALL));
  EXPECT_TRUE(filter.passes(NCCL_LOG_INFO, NCCL_INIT | NCCL_NET));
  EXPECT_FALSE(filter.passes(NCCL_LOG_INFO, NCCL_NET));
  EXPECT_FALSE(filter.passes(NCCL_LOG_TRACE, NCCL_ALL));
}

TEST(LogFilter, DropsAWarningWhoseSubsystemIsNotWanted) {
  EXPECT_FALSE(LogFilter::from({}).passes(NCCL_LOG_WARN, NCCL_NET));
  EXPECT_TRUE(LogFilter::from({{"NCCL_DEBUG_SUBSYS", "NET"}}).passes(NCCL_LOG_WARN, NCCL_NET));
}

TEST(LogFilter, TakesTheLevelThatNcclTakes) {
  const LogFilter warnings = LogFilter::from({{"NCCL_DEBUG", "warn"}});
  EXPECT_TRUE(warnings.passes(NCCL_LOG_WARN, NCCL_ALL));
  EXPECT_FALSE(warnings.passes(NCCL_LOG_INFO, NCCL_ALL));
  const LogFilter trace =
      LogFilter::from({{"NCCL_DEBUG", "TRACE"}, {"NCCL_DEBUG_SUBSYS", "INIT,NET"}});
  EXPECT_TRUE(trace.passes(NCCL_LOG_TRACE, NCCL_NET));
}

TEST(LogFilter, ReadsListsAsNcclDoes) {
  EXPECT_EQ(subsystems_of("INIT"), NCCL_INIT);
  EXPECT_EQ(subsystems_of("init,Net"), NCCL_INIT | NCCL_NET);
  EXPECT_EQ(subsystems_of("COLL,BOOTSTRAP,ENV"), kColl | NCCL_BOOTSTRAP | NCCL_ENV);
  EXPECT_EQ(subsystems_of("ALL"), NCCL_ALL);
  EXPECT_EQ(subsystems_of("^NET"), NCCL_ALL & ~NCCL_NET);
  EXPECT_EQ(subsystems_of("^NET,COLL"), NCCL_ALL & ~(NCCL_NET | kColl));
  EXPECT_EQ(subsystems_of("NOSUCH,,INIT,"), NCCL_INIT);
}

}  // namespace
}  // namespace mesh::driver
