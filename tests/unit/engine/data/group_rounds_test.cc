// Eight ranks that share a proxy: groups of receives, and sends in any order.

#include "engine/data/peer_link.h"
#include "tests/unit/engine/data/groups.h"
#include "tests/unit/engine/data/lose_path.h"

#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <random>

namespace mesh {
namespace {

using testkit::Bed;
using testkit::finish_group;
using testkit::kA, testkit::kB;
using testkit::kMembers, testkit::kStep;
using testkit::members;
using testkit::send;
using testkit::Talk;
using Sizes = testkit::GroupSizes;

// Runs rounds of groups with all tags. The sends of each tag advance independently, as those of
// eight ranks that share a proxy.
class Rounds {
 public:
  Rounds(Bed& bed, Talk& talk, std::size_t rounds) : bed_(bed), talk_(talk), rounds_(rounds) {}

  // The tag whose sends wait until no other tag can go on.
  std::uint32_t late_tag = UINT32_MAX;
  std::size_t open_max = 8;
  std::size_t lose_at = SIZE_MAX;  // the round in which a path is lost

  void run(std::uint32_t seed) {
    std::mt19937 random(seed);
    std::size_t idle = 0;
    while (done_ < rounds_ * kMembers + rounds_ && idle < 200'000) {
      const std::size_t before = done_ + started_;
      step(random, idle > 2000);
      bed_.round();
      idle = done_ + started_ == before ? idle + 1 : 0;
    }
    ASSERT_EQ(done_, rounds_ * kMembers + rounds_) << "stuck, seed " << seed;
  }

 private:
  struct Sender {
    std::deque<Request*> open;
    std::size_t started = 0;
  };
  struct Group {
    Request* request = nullptr;
    std::size_t round = 0;
  };
  static std::size_t size_of(std::size_t round, std::size_t tag) {
    return (round * 131 + tag * 977) % kStep;
  }
  static std::size_t place_of(std::size_t round, std::size_t tag) {
    return (round % 8 * kMembers + tag) * kStep;
  }

  void step(std::mt19937& random, bool stuck) {
    if (groups_.size() < 8 && posted_ < rounds_) start_group();
    const auto tag = static_cast<std::uint32_t>(random() % kMembers);
    Sender& sender = senders_[tag];
    const bool may =
        sender.open.size() < open_max && sender.started < rounds_ && (tag != late_tag || stuck);
    if (may && random() % 2 == 0) {
      const Result<Request*> sending =
          send(talk_, place_of(sender.started, tag), size_of(sender.started, tag), tag);
      if (sending.ok()) sender.open.push_back(*sending), ++sender.started, ++started_;
    } else if (!sender.open.empty()) {
      const Status status = test(*sender.open.front(), nullptr);
      if (status.code() == Errc::WouldBlock) return take_group();
      ASSERT_TRUE(status.ok()) << errc_name(status.code());
      sender.open.pop_front(), ++done_;
    }
    take_group();
  }
  void start_group() {
    if (posted_ == lose_at && talk_.pair.receive->link.paths().count() > 1)
      testkit::lose_path(*talk_.pair.send, 0), lose_at = SIZE_MAX;
    const Result<Request*> group =
        irecv_group(*talk_.pair.receive, members(talk_, place_of(posted_, 0), 0));
    if (group.ok()) groups_.push_back({*group, posted_++}), ++started_;
  }
  void take_group() {
    if (groups_.empty()) return;
    const Group group = groups_.front();
    Sizes sizes{};
    const Result<std::size_t> count = test_group(*group.request, sizes);
    if (count.code() == Errc::WouldBlock) return;
    ASSERT_TRUE(count.ok()) << errc_name(count.code());
    for (std::size_t tag = 0; tag < kMembers; ++tag) {
      const std::size_t at = place_of(group.round, tag);
      ASSERT_EQ(sizes[tag], size_of(group.round, tag)) << "round " << group.round;
      ASSERT_TRUE(talk_.holds(at, at, sizes[tag])) << "round " << group.round << ", tag " << tag;
    }
    groups_.pop_front(), ++done_;
  }

  Bed& bed_;
  Talk& talk_;
  const std::size_t rounds_;
  std::array<Sender, kMembers> senders_;
  std::deque<Group> groups_;
  std::size_t posted_ = 0, started_ = 0, done_ = 0;
};

TransferPolicy many_slots() {
  TransferPolicy policy;
  policy.slots = 64;
  return policy;
}

TEST(Group, EightTagsWithEightOpenAndOneOfThemLate) {
  Bed bed({.policy = many_slots()});
  Talk talk(bed, kA, kB, 8 * kMembers * kStep);
  Rounds rounds(bed, talk, 40);
  rounds.late_tag = 7;
  rounds.run(1);
}

TEST(Group, ManyInRandomOrder) {
  for (const std::uint32_t seed : {1u, 2u, 3u}) {
    Bed bed({.policy = many_slots()});
    Talk talk(bed, kA, kB, 8 * kMembers * kStep);
    Rounds rounds(bed, talk, 1250);
    rounds.run(seed);
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(Group, OutlivesTheLossOfAPath) {
  for (const std::uint32_t seed : {1u, 2u, 3u, 4u}) {
    Bed bed({.fabric = testkit::kThreeCables, .policy = many_slots()});
    Talk talk(bed, kA, kB, 8 * kMembers * kStep);
    testkit::delay_writes(bed.hosts[0], "n0", 20'000);
    Rounds rounds(bed, talk, 200);
    rounds.lose_at = 50;
    rounds.run(seed);
    if (testing::Test::HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace mesh
