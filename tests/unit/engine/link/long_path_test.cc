#include "engine/link/link_setup.h"

#include <gtest/gtest.h>

namespace mesh::engine {
namespace {

TEST(LongPath, SitesAreApartWhereBothAreNamedAndDiffer) {
  EXPECT_TRUE((SiteCrossing{.own = "east", .peer = "west"}.apart()));
  EXPECT_FALSE((SiteCrossing{.own = "east", .peer = "east"}.apart()));
  EXPECT_FALSE(SiteCrossing{}.apart());
}

TEST(LongPath, OneSiteWithoutANameIsRefusedByTheNamesOfBothHosts) {
  EXPECT_EQ(site_refusal("a", "", "b", ""), "");
  EXPECT_EQ(site_refusal("a", "east", "b", "west"), "");
  const char* const text =
      "host a is at site east and host b names none: set NCCL_MESH_SITE on every host or on none";
  EXPECT_EQ(site_refusal("a", "east", "b", ""), text);
  EXPECT_EQ(site_refusal("b", "", "a", "east"), text);
}

TEST(LongPath, ARoundTripAtThePortsSpeedIsInFlightBeyondTheUsual) {
  TransferPolicy policy;
  policy.inflight_us = 4000;
  const LongPath path{
      .speed_mbps = 100'000, .round_trip_ns = 10'000'000, .usual_inflight_bytes = 8u << 20};
  EXPECT_EQ(long_inflight_bytes(policy, path), (8u << 20) + 125'000'000u);
  policy.inflight_us = 0;
  EXPECT_EQ(long_inflight_bytes(policy, path), 8u << 20) << "the job has said so";
}

TEST(LongPath, TimersOutlastTheRoundTrip) {
  EXPECT_EQ(long_ack_timer(16, 10'000'000), 16) << "268 ms are enough for 10 ms";
  EXPECT_EQ(long_ack_timer(16, 100'000'000), 18) << "1.07 s for 0.1 s";
  EXPECT_EQ(long_ack_timer(20, 100'000'000), 20);
  EXPECT_EQ(long_ack_timer(0, 100'000'000), 0) << "for ever";
  EXPECT_EQ(long_ack_timer(16, std::uint64_t{1} << 50), 31) << "the field has five bits";
  EXPECT_EQ(long_path_timeout_ns(30'000'000'000, 10'000'000), 31'000'000'000u);
}

TEST(LongPath, QueuesAreDeeperAsFarAsTheDeviceAllows) {
  EXPECT_EQ(long_depth(256, 0), 2048u);
  EXPECT_EQ(long_depth(256, 1500), 1024u);
  EXPECT_EQ(long_depth(256, 100), 256u) << "never less than usual";
  EXPECT_EQ(long_depth(4096, 32768), 4096u);
}

}  // namespace
}  // namespace mesh::engine
