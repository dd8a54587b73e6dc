#include "engine/data/link_memory.h"

#include "engine/data/device_context.h"
#include "tests/prelude.h"
#include "tests/unit/base/log_capture.h"
#include "tests/unit/engine/data/region_provider.h"

namespace mesh::engine {
namespace {

// Two devices; the second one refuses memory.
class LinkMemoryTest : public testing::Test {
 protected:
  LinkMemoryTest() {
    for (verbs::Rail& rail : rails_) {
      rail.cq_entries_max = 65536;
      rail.gids = {verbs::testkit::gid_of(3, "10.0.12.1")};
    }
    EXPECT_TRUE(good_.open().ok());
    EXPECT_TRUE(sick_.open().ok());
    provider_.refusal = EIO;
    provider_.refuse_after = 1;  // the first registration succeeds
  }

  testkit::RegionProvider provider_;
  std::array<verbs::Rail, 2> rails_;
  DeviceContext good_{provider_, rails_[0], 0}, sick_{provider_, rails_[1], 1};
  LinkMemory memory_;
};

TEST_F(LinkMemoryTest, ADeviceThatNoPathUsesYetMayRefuse) {
  memory_.configure(64, {{.device = &good_}, {.device = &sick_, .spare = true}});
  const Result<PeerWritable> made = memory_.channel_memory(0);
  ASSERT_TRUE(made.ok());
  EXPECT_NE(made->rkeys[0], 0u);
  EXPECT_EQ(made->rkeys[1], 0u);
  EXPECT_TRUE(memory_.lacks(sick_));
  EXPECT_FALSE(memory_.lacks(good_));
  memory_.release();
}

TEST_F(LinkMemoryTest, ADeviceOfAPathMayNot) {
  provider_.refusal = ENOMEM;
  const testkit::LogCapture log;
  memory_.configure(64,
                    {{.device = &good_}, {.device = &sick_}, {.device = &sick_, .spare = true}});
  EXPECT_EQ(memory_.channel_memory(0).code(), Errc::System);
  EXPECT_EQ(log.count(LogLevel::Warn, "for a peer link: Cannot allocate memory ("), 1)
      << "the hint at the limit; " << log.joined();
}

TEST_F(LinkMemoryTest, WithoutMemoryProbesAndANewCardHaveTheHintAtItsLimit) {
  provider_.refusal = ENOMEM;
  provider_.refuse_after = 0;
  const testkit::LogCapture log;
  EXPECT_EQ(sick_.provide_probes().code(), Errc::System);
  LinkMemory::Missing missing{.block = 0, .memory = {}, .bytes = 64};
  EXPECT_EQ(LinkMemory::make(missing, sick_).code(), Errc::System);
  EXPECT_EQ(log.count(LogLevel::Warn, "for probes: Cannot allocate memory (") +
                log.count(LogLevel::Warn, "for a peer link: Cannot allocate memory ("),
            2)
      << log.joined();
  EXPECT_EQ(log.count(LogLevel::Warn, "ulimit -l"), 2) << log.joined();
}

TEST_F(LinkMemoryTest, AnErrorOfACardThatAnswersIsNoProofThatItHasLeft) {
  memory_.configure(64, {{.device = &good_}, {.device = &sick_}});
  EXPECT_EQ(memory_.channel_memory(0).code(), Errc::System);
  EXPECT_FALSE(sick_.gone());
}

TEST_F(LinkMemoryTest, ADeviceOfAPathMayWhenItsCardHasLeft) {
  provider_.card_left = true;
  memory_.configure(64, {{.device = &good_}, {.device = &sick_}});
  EXPECT_TRUE(memory_.channel_memory(0).ok());
  EXPECT_TRUE(sick_.gone());
  EXPECT_TRUE(memory_.lacks(sick_));
  EXPECT_EQ(memory_.missing(sick_).size(), 1u) << "which a new card registers";
  EXPECT_TRUE(memory_.missing(good_).empty());
  memory_.release();
}

}  // namespace
}  // namespace mesh::engine
