// One registration per exact range, and one memory region per rail that uses it; both are counted.

#include "engine/data/registration.h"

#include "engine/data/device_context.h"
#include "engine/data/progress_loop.h"
#include "tests/unit/base/log_capture.h"
#include "tests/unit/engine/data/nobody.h"
#include "tests/unit/engine/data/region_provider.h"

namespace mesh::engine {
namespace {

class RegistrationTableTest : public testing::Test {
 protected:
  static constexpr std::array<std::uint32_t, 1> kFirst{0};
  static constexpr std::array<std::uint32_t, 2> kBoth{0, 1};
  static constexpr std::array<std::uint32_t, 3> kAll{0, 1, 2};

  RegistrationTableTest() {
    for (std::uint32_t i = 0; i < rails_.size(); ++i) {
      rails_[i].info.name = fmt::format("n{}:1", i);
      devices_.push_back(std::make_unique<DeviceContext>(provider_, rails_[i], i));
      EXPECT_TRUE(devices_.back()->open().ok());
      pointers_.push_back(devices_.back().get());
    }
    table_ = std::make_unique<RegistrationTable>(pointers_, Settings{}, 0);
  }
  Registration* acquire(std::size_t offset, std::size_t bytes, std::span<const std::uint32_t> on) {
    return table_->acquire({.data = memory_.data() + offset, .bytes = bytes}, on).value();
  }

  testkit::LogCapture log_;
  testkit::RegionProvider provider_;
  std::array<verbs::Rail, 3> rails_{};
  std::vector<std::unique_ptr<DeviceContext>> devices_;
  std::vector<DeviceContext*> pointers_;
  std::unique_ptr<RegistrationTable> table_;
  std::array<std::byte, 8192> memory_{};
};

TEST_F(RegistrationTableTest, SameRangeOfTwoChannelsIsOneRegionUntilTheLast) {
  Registration* const first = acquire(0, 4096, kFirst);
  Registration* const again = acquire(0, 4096, kFirst);
  EXPECT_EQ(first, again);
  EXPECT_EQ(provider_.live.size(), 1u);
  EXPECT_EQ(table_->size(), 1u);
  table_->release(first, kFirst);
  EXPECT_EQ(provider_.live.size(), 1u);
  table_->release(again, kFirst);
  EXPECT_EQ(provider_.live.size(), 0u);
  EXPECT_EQ(table_->size(), 0u);
}

TEST_F(RegistrationTableTest, NobodyMayReadWhatIsRegistered) {
  acquire(0, 4096, kFirst);
  EXPECT_EQ(provider_.last_access & IBV_ACCESS_REMOTE_READ, 0);
  EXPECT_NE(provider_.last_access & IBV_ACCESS_REMOTE_WRITE, 0);
}

TEST_F(RegistrationTableTest, DataMayBeWrittenInAnyOrderUnlessTheSettingForbidsIt) {
  for (const int setting : {2, 1, 0}) {
    Settings settings;
    settings.relaxed_ordering = setting;
    table_ = std::make_unique<RegistrationTable>(pointers_, settings, 0);
    acquire(0, 4096, kFirst);
    EXPECT_EQ((provider_.last_access & static_cast<int>(IBV_ACCESS_RELAXED_ORDERING)) != 0,
              setting != 0)
        << setting;
    table_->clear();
  }
}

TEST_F(RegistrationTableTest, OtherAddressOrLengthIsAnotherRegion) {
  Registration* const one = acquire(0, 4096, kFirst);
  Registration* const shorter = acquire(0, 4095, kFirst);
  Registration* const shifted = acquire(1, 4095, kFirst);
  EXPECT_EQ(provider_.live.size(), 3u);
  EXPECT_NE(one->keys(0).rkey, shorter->keys(0).rkey);
  table_->release(one, kFirst);
  EXPECT_EQ(provider_.live.size(), 2u);
  table_->release(shorter, kFirst);
  table_->release(shifted, kFirst);
  EXPECT_EQ(provider_.live.size(), 0u);
}

TEST_F(RegistrationTableTest, RegionGoesFromEachRailWithItsLastUserThere) {
  Registration* const of_one_link = acquire(0, 4096, kFirst);
  EXPECT_EQ(provider_.live.size(), 1u);
  Registration* const of_another = acquire(0, 4096, kBoth);
  EXPECT_EQ(of_one_link, of_another);
  EXPECT_EQ(provider_.live.size(), 2u) << "the first rail's is shared";
  EXPECT_NE(of_another->keys(0).lkey, of_another->keys(1).lkey);
  table_->release(of_another, kBoth);
  EXPECT_EQ(provider_.live.size(), 1u);
  EXPECT_EQ((*provider_.live.begin())->lkey, of_one_link->keys(0).lkey);
  table_->release(of_one_link, kFirst);
  EXPECT_EQ(provider_.live.size(), 0u);
}

TEST_F(RegistrationTableTest, RangeRegisteredAgainGetsNewKeys) {
  Registration* registration = acquire(0, 4096, kFirst);
  const std::uint32_t before = registration->keys(0).rkey;
  table_->release(registration, kFirst);
  registration = acquire(0, 4096, kFirst);
  EXPECT_NE(registration->keys(0).rkey, before);
  table_->release(registration, kFirst);
}

TEST(RailSet, HoldsEveryRailOfAHost) {
  std::vector<std::uint32_t> rails(verbs::kRailsMax);
  std::iota(rails.begin(), rails.end(), 0u);
  const engine::RailSet all(rails), first(std::span<const std::uint32_t>(rails).first(kPathsMax));
  EXPECT_EQ(all.span().size(), verbs::kRailsMax);
  const engine::RailSet missing = first.missing_of(all.span());
  EXPECT_EQ(missing.span().size(), verbs::kRailsMax - kPathsMax);
}

TEST_F(RegistrationTableTest, RefusalGivesBackWhatTheCallTookAndNamesTheRail) {
  provider_.refuse_after = 2;
  const auto refused = table_->acquire({.data = memory_.data(), .bytes = 4096}, kAll);
  EXPECT_EQ(refused.code(), Errc::System);
  EXPECT_EQ(provider_.live.size(), 0u);
  EXPECT_EQ(table_->size(), 0u);
  EXPECT_TRUE(log_.warned("cannot register 4096 bytes"));
  EXPECT_TRUE(log_.warned("on n2:1: Cannot allocate memory"));
}

TEST_F(RegistrationTableTest, ANewCardWithoutMemoryHasTheHintAtItsLimit) {
  testkit::NoWaker waker;
  ProgressLoop loop(waker);
  Registration* const held = acquire(0, 4096, kFirst);
  std::vector<verbs::MrHandle> former;
  provider_.refuse_after = 0;
  EXPECT_EQ(table_->renew(0, loop, &former).code(), Errc::System);
  EXPECT_EQ(former.size(), 1u);
  EXPECT_EQ(log_.count(LogLevel::Warn, "n0:1: the new card does not register 4096 bytes"), 1);
  EXPECT_EQ(log_.count(LogLevel::Warn, "ulimit -l"), 1) << log_.joined();
  table_->release(held, kFirst);
}

TEST_F(RegistrationTableTest, RefusalLeavesAnotherUsersRegionAlone) {
  Registration* const held = acquire(0, 4096, kFirst);
  provider_.refuse_after = 1;
  EXPECT_FALSE(table_->acquire({.data = memory_.data(), .bytes = 4096}, kAll).ok());
  EXPECT_EQ(provider_.live.size(), 1u);
  EXPECT_EQ(table_->size(), 1u);
  provider_.refuse_after = -1;
  table_->release(held, kFirst);
  EXPECT_EQ(provider_.live.size(), 0u);
}

// A prepared region serves later extend() calls, and does not count as a use itself.
TEST_F(RegistrationTableTest, WhatIsPreparedIsThereForItsUsers) {
  Registration* const region = acquire(0, 4096, kFirst);
  table_->hold(*region);
  ASSERT_TRUE(table_->prepare(*region, 2).ok());
  EXPECT_EQ(provider_.live.size(), 2u);
  const std::uint32_t key = region->keys(2).rkey;
  ASSERT_TRUE(table_->extend(*region, 2, 1).ok());
  table_->drop(*region, std::array{2u});
  EXPECT_EQ(provider_.live.size(), 2u);
  EXPECT_EQ(region->keys(2).rkey, key);
  table_->release(region, std::array{0u, 2u});
  EXPECT_EQ(provider_.live.size(), 0u);
  EXPECT_EQ(table_->size(), 0u);
}

TEST_F(RegistrationTableTest, WhatIsPreparedGoesWithTheLastUseAndAtTheEndOfAllRegistrations) {
  for (const bool all_end : {false, true}) {
    Registration* const region = acquire(0, 4096, kFirst);
    table_->hold(*region);
    ASSERT_TRUE(table_->prepare(*region, 1).ok());
    all_end ? table_->clear() : table_->release(region, kFirst);
    EXPECT_EQ(provider_.live.size(), 0u) << "its memory may be somebody else's by now";
    ASSERT_TRUE(table_->prepare(*region, 2).ok()) << "what is held outlives it";
    EXPECT_EQ(provider_.live.size(), 0u) << "nobody uses it";
    table_->drop(*region, std::array{1u, 2u});
    EXPECT_EQ(table_->size(), 0u);
  }
}

// A device may take long, and a holder gives up what it holds under a lock that others need.
TEST_F(RegistrationTableTest, NobodyWaitsForTheDevicesAtTheEndOfAllRegistrations) {
  using namespace std::chrono_literals;
  for (const bool is_held : {false, true}) {
    Registration* const region = acquire(0, 4096, kBoth);
    if (is_held) table_->hold(*region);
    std::vector<std::future<bool>> asked;
    provider_.deregistering = [&] {
      asked.push_back(std::async(std::launch::async, [&] { return table_->size() <= 1; }));
      EXPECT_EQ(asked.back().wait_for(2s), std::future_status::ready) << is_held;
    };
    table_->clear();
    EXPECT_EQ(asked.size(), 2u);
    EXPECT_EQ(provider_.live.size(), 0u);
    provider_.deregistering = nullptr;
    if (is_held) table_->leave(*region, {});
    EXPECT_EQ(table_->size(), 0u);
  }
}

TEST_F(RegistrationTableTest, WhatAHolderLeavesGoesWithTheLastUse) {
  Registration* const region = acquire(0, 4096, kFirst);
  table_->hold(*region);
  ASSERT_TRUE(table_->prepare(*region, 1).ok());
  table_->leave(*region, std::array{1u});
  EXPECT_EQ(provider_.live.size(), 2u) << "the holder may wait for no device";
  EXPECT_TRUE(table_->is_on(*region, 1));
  table_->release(region, kFirst);
  EXPECT_EQ(provider_.live.size(), 0u);
  EXPECT_EQ(table_->size(), 0u);
}

TEST_F(RegistrationTableTest, AHeldRangeThatIsRegisteredAgainIsTheSame) {
  Registration* const region = acquire(0, 4096, kFirst);
  table_->hold(*region);
  table_->release(region, kFirst);
  Registration* const again = acquire(0, 4096, kBoth);
  EXPECT_EQ(region, again);
  EXPECT_EQ(provider_.live.size(), 2u);
  table_->drop(*region, kFirst);
  EXPECT_EQ(provider_.live.size(), 2u) << "the hold had nothing";
  table_->retract(*again, 1, 1);
  EXPECT_EQ(provider_.live.size(), 1u);
  table_->release(again, kFirst);
  EXPECT_EQ(table_->size(), 0u);
}

TEST(Registration, CoversItsRangeAndNothingElse) {
  Registration registration;
  registration.address = 4096;
  registration.bytes = 100;
  const auto at = [](std::uintptr_t address) { return reinterpret_cast<const void*>(address); };
  EXPECT_TRUE(registration.covers(at(4096), 100));
  EXPECT_TRUE(registration.covers(at(4195), 1));
  EXPECT_TRUE(registration.covers(at(4196), 0));
  EXPECT_FALSE(registration.covers(at(4095), 1));
  EXPECT_FALSE(registration.covers(at(4096), 101));
  EXPECT_FALSE(registration.covers(at(4196), 1));
  EXPECT_FALSE(registration.covers(at(4097), SIZE_MAX));
  EXPECT_FALSE(registration.covers(at(UINTPTR_MAX), 2));
}

}  // namespace
}  // namespace mesh::engine
