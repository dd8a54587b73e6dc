// Over a network with adaptive routing the data of a large message goes in plain writes, and empty
// writes with immediate announce it. Tests how the message is cut, what the receiver is told, and
// what happens when writes overtake one another or a path is lost.
#include "engine/data/peer_link.h"
#include "engine/message/wire.h"
#include "tests/prelude.h"
#include "tests/unit/engine/bed.h"
#include "tests/unit/engine/data/lose_path.h"
#include "tests/unit/engine/units.h"

namespace mesh {
namespace {

using testkit::Bed, testkit::kA, testkit::kB, testkit::kKiB, testkit::Talk;

constexpr std::size_t kRoom = 2048 * kKiB;

// One path over InfiniBand and one over Ethernet.
constexpr const char* kMixed = R"({"name":"mixed",
  "hosts":[{"name":"a","nics":[{"name":"n0","layer":"infiniband","address":"fec0:0:0:1::a/64"},
                               {"name":"n1","address":"10.0.2.1/24"}]},
           {"name":"b","nics":[{"name":"n0","layer":"infiniband","address":"fec0:0:0:1::b/64"},
                               {"name":"n1","address":"10.0.2.2/24"}]}],
  "links":[{"ends":["a/n0","b/n0"]},{"ends":["a/n1","b/n1"]}]})";

TransferPolicy stripes_of(std::size_t bytes, std::uint32_t qps = 4) {
  TransferPolicy policy;
  policy.qps = qps;
  policy.stripe_bytes = bytes;
  return policy;
}

// Counts the work requests over each path since the last take().
class Count {
 public:
  explicit Count(const Talk& talk) : link_(talk.pair.send->link) { take(); }
  std::vector<std::uint64_t> take() {
    std::vector<std::uint64_t> more;
    for (std::uint32_t i = 0; i < link_.paths().count(); ++i) {
      const std::uint64_t posted = link_.paths()[i].counters().work_requests;
      more.push_back(posted - before_[i]);
      before_[i] = posted;
    }
    return more;
  }

 private:
  const engine::PeerLink& link_;
  std::array<std::uint64_t, kPathsMax> before_{};
};
using Counts = std::vector<std::uint64_t>;

TEST(AdaptiveRouting, ALargerMessageThanTheThresholdGoesApartFromItsAnnouncements) {
  Bed bed({.policy = stripes_of(64 * kKiB), .adaptive_routing = 1, .ar_threshold = 8192});
  Talk talk(bed, kA, kB, kRoom);
  Count count(talk);
  talk.exchange(8192);
  EXPECT_EQ(count.take(), Counts{1});
  talk.exchange(8193);
  EXPECT_EQ(count.take(), Counts{3}) << "data, record, announcement";
  talk.exchange(256 * kKiB);
  EXPECT_EQ(count.take(), Counts{4 + 1 + 4});
  talk.exchange(1024 * kKiB);
  EXPECT_EQ(count.take(), Counts{4 + 1 + 4});
}

TEST(AdaptiveRouting, OffAMessageGoesWithItsImmediate) {
  Bed bed({.policy = stripes_of(64 * kKiB), .adaptive_routing = 0, .ar_threshold = 0});
  Talk talk(bed, kA, kB, kRoom);
  Count count(talk);
  talk.exchange(1);
  EXPECT_EQ(count.take(), Counts{1});
  talk.exchange(64 * kKiB);
  EXPECT_EQ(count.take(), Counts{2}) << "one stripe alone goes in halves";
  talk.exchange(256 * kKiB);
  EXPECT_EQ(count.take(), Counts{4});
}

TEST(AdaptiveRouting, UnsetItIsOnForInfiniBandPortsOnly) {
  Bed bed({.fabric = kMixed, .policy = stripes_of(64 * kKiB, 1)});
  Talk talk(bed, kA, kB, kRoom);
  const engine::PeerLink& link = talk.pair.send->link;
  ASSERT_EQ(link.paths().count(), 2u);
  for (std::uint32_t i = 0; i < 2; ++i) {
    const bool infiniband = link.paths()[i].name.starts_with("n0:1");
    EXPECT_EQ(link.paths()[i].apart_above, infiniband ? 8192 : UINT64_MAX) << link.paths()[i].name;
  }
}

// Each stripe is sent as its path requires. The record covers all stripes.
TEST(AdaptiveRouting, PathsThatDifferCarryOneMessageTogether) {
  Bed bed({.fabric = kMixed, .policy = stripes_of(64 * kKiB, 1)});
  Talk talk(bed, kA, kB, kRoom);
  const std::uint32_t apart = talk.pair.send->link.paths()[0].name.starts_with("n0:1") ? 0 : 1;
  Count count(talk);
  talk.exchange(128 * kKiB);
  Counts taken = count.take();
  EXPECT_GE(taken[apart], 2u) << "data and announcement";
  EXPECT_EQ(taken[0] + taken[1], 4u) << "and a stripe in one, and a record";
  for (const std::size_t bytes :
       {std::size_t{1}, std::size_t{8192}, std::size_t{8193}, 65 * kKiB, 700 * kKiB + 1, kRoom})
    talk.exchange(bytes);
}

TEST(AdaptiveRouting, EverySizeArrivesWholeWhateverTheThreshold) {
  for (const int threshold : {0, 7, 300, 8192, 100'000}) {
    for (const std::uint32_t qps : {1u, engine::kStripesTold, engine::kStripesTold + 1}) {
      TransferPolicy policy = stripes_of(32 * kKiB, qps);
      policy.wr_bytes = 48 * kKiB;
      Bed bed({.policy = policy, .adaptive_routing = 1, .ar_threshold = threshold});
      Talk talk(bed, kA, kB, kRoom);
      for (const std::size_t bytes :
           {1u, 7u, 8u, 220u, 301u, 8192u, 8193u, 32768u, 32769u, 100'001u, 700'001u, 2u << 20}) {
        talk.exchange(bytes);
        ASSERT_FALSE(HasFailure()) << bytes << " bytes, above " << threshold << ", " << qps;
      }
    }
  }
}

TEST(AdaptiveRouting, ASendLargerThanItsReceiveFailsBothAndTheChannelGoesOn) {
  Bed bed({.adaptive_routing = 1, .ar_threshold = 0});
  Talk talk(bed, kA, kB, kRoom);
  const auto receiving = talk.receive({.bytes = 300'000});
  const auto sending = talk.send({.bytes = 300'001});
  EXPECT_EQ(bed.finish(*sending).code(), Errc::Truncated);
  EXPECT_EQ(bed.finish(*receiving).code(), Errc::Truncated);
  talk.exchange(300'001);
}

// When the receiver sees a message as complete, none of its data may still be under way.
TEST(AdaptiveRouting, DataThatOvertakesIsThereWhenItIsAnnounced) {
  TransferPolicy policy = stripes_of(8 * kKiB);
  policy.wr_bytes = 2 * kKiB;
  Bed bed({.policy = policy, .adaptive_routing = 1, .ar_threshold = 1024});
  const soft::Fault fault{.kind = soft::FaultKind::OutOfOrder, .delay_ns = 100'000};
  ASSERT_TRUE(bed.hosts[1].provider->faults().arm(fault).ok());
  Talk talk(bed, kA, kB, kRoom);
  for (int round = 0; round < 20; ++round) {
    for (const std::size_t bytes : {9 * kKiB, 64 * kKiB + 5, 300 * kKiB}) {
      talk.exchange(bytes);
      ASSERT_FALSE(HasFailure()) << bytes << " bytes, round " << round;
    }
  }
}

TEST(AdaptiveRouting, WhatALostPathWasToCarryGoesOverTheOther) {
  for (const int work_requests : {0, 1, 2, 3, 5, 8, 13}) {
    TransferPolicy policy = stripes_of(16 * kKiB, 2);
    policy.wr_bytes = 4 * kKiB;
    Bed bed({.fabric = kMixed, .policy = policy});
    Talk talk(bed, kA, kB, kRoom);
    talk.exchange(100 * kKiB);
    soft::Fault fault{.kind = soft::FaultKind::WriteDelay};
    fault.nic = "n0";
    fault.delay_ns = 4'000'000'000;
    fault.after_work_requests = static_cast<std::uint64_t>(work_requests);
    ASSERT_TRUE(bed.hosts[0].provider->faults().arm(fault).ok());
    const auto receiving = talk.receive({.bytes = 200 * kKiB});
    const auto sending = talk.send({.bytes = 200 * kKiB});
    bed.rounds(500);
    const std::uint32_t apart = talk.pair.send->link.paths()[0].name.starts_with("n0:1") ? 0 : 1;
    testkit::lose_path(*talk.pair.send, apart);
    std::size_t bytes = 0;
    EXPECT_TRUE(bed.finish(*sending).ok());
    EXPECT_TRUE(bed.finish(*receiving, &bytes).ok());
    EXPECT_EQ(bytes, 200 * kKiB);
    EXPECT_TRUE(talk.holds(0, 0, bytes)) << work_requests;
    bed.hosts[0].provider->faults().disarm_all();
    talk.exchange(100 * kKiB);
    EXPECT_EQ(bed.stats(1).late_announcements, 0u);
  }
}

}  // namespace
}  // namespace mesh
