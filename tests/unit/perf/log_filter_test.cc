#include "perf/driver/log_filter.h"

#include "tests/prelude.h"

namespace mesh::driver {
namespace {

constexpr unsigned long kColl = 0x2;

TEST(LogFilter, PassesWhatNcclShowsAtEachLevel) {
  const LogFilter usual = LogFilter::from({});
  EXPECT_TRUE(usual.passes(NCCL_LOG_WARN, NCCL_ALL));
  EXPECT_FALSE(usual.passes(NCCL_LOG_WARN, NCCL_NET)) << "a subsystem that is not wanted";
  EXPECT_TRUE(usual.passes(NCCL_LOG_INFO, NCCL_INIT | NCCL_NET));
  EXPECT_FALSE(usual.passes(NCCL_LOG_TRACE, NCCL_ALL));
  EXPECT_FALSE(LogFilter::from({{"NCCL_DEBUG", "warn"}}).passes(NCCL_LOG_INFO, NCCL_ALL));
  EXPECT_TRUE(LogFilter::from({{"NCCL_DEBUG", "TRACE"}, {"NCCL_DEBUG_SUBSYS", "INIT,NET"}})
                  .passes(NCCL_LOG_TRACE, NCCL_NET));
}

TEST(LogFilter, ReadsListsAsNcclDoes) {
  EXPECT_EQ(subsystems_of("init,Net"), NCCL_INIT | NCCL_NET);
  EXPECT_EQ(subsystems_of("COLL,BOOTSTRAP,ENV"), kColl | NCCL_BOOTSTRAP | NCCL_ENV);
  EXPECT_EQ(subsystems_of("ALL"), NCCL_ALL);
  EXPECT_EQ(subsystems_of("^NET,COLL"), NCCL_ALL & ~(NCCL_NET | kColl));
  EXPECT_EQ(subsystems_of("NOSUCH,,INIT,"), NCCL_INIT);
}

}  // namespace
}  // namespace mesh::driver
