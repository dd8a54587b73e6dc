// Announcements as a hostile or confused peer might send them. Only the live generation of a live
// slot completes a receive.

#include "engine/data/recv_channel.h"

#include "engine/data/progress_loop_datapath.h"
#include "tests/prelude.h"
#include "tests/unit/base/log_capture.h"
#include "tests/unit/engine/data/nobody.h"
#include "tests/unit/verbs/fake_provider.h"

namespace mesh::engine {
namespace {

using mesh::testkit::NoOwner, mesh::testkit::NoWaker;

constexpr std::uint32_t kIndex = 5;

class RecvChannelTest : public testing::Test {
 protected:
  RecvChannelTest() {
    rail_.info.name = "n0:1";
    rail_.cq_entries_max = 65536;
    loop_.devices.push_back(std::make_unique<DeviceContext>(provider_, rail_, 0));
    EXPECT_TRUE(loop_.devices[0]->open().ok());
    link_ = make_link(LinkRole::Acceptor);
    progress_lock_.emplace(loop_);
    link_->paths().order();
    open(1);
  }
  ~RecvChannelTest() override { link_->destroy_queue_pairs(); }

  std::unique_ptr<PeerLink> make_link(LinkRole role) {
    auto link = std::make_unique<PeerLink>(
        loop_, owner_, LinkIdentity{.role = role, .peer_host = "far"}, TransferPolicy{});
    EXPECT_TRUE(link->paths().make(link->paths().add_primary(*loop_.devices[0], {}, "path")).ok());
    return link;
  }
  void open(std::uint32_t life) {
    life_ = life;
    channel_ = link_->channels().add_receiver(kIndex, life, records_.data());
    channel_->set_credits({});
  }
  Request& receive(std::uint64_t bytes) {
    Request& request = channel_->next_slot();
    request.bytes = bytes;
    request.region = nullptr;
    static_cast<void>(channel_->publish(request));
    EXPECT_FALSE(channel_->advance());
    return request;
  }
  void announce(const Announcement& announcement, std::uint32_t bytes = 0) {
    link_->channels().on_announcement(pack(announcement), bytes);
  }
  std::uint32_t generation() const { return generation_base(life_); }
  std::uint64_t late() const { return loop_.counters.late_announcements.get(); }
  void write_record(std::uint32_t slot, const Record& record) {
    std::atomic_ref(records_[slot].words[0]).store(record.words[0], std::memory_order_relaxed);
    std::atomic_ref(records_[slot].words[1]).store(record.words[1], std::memory_order_release);
  }

  bool has_live_credit() const {
    const Request* const requests = channel_->requests.get();
    return std::any_of(requests, requests + channel_->slot_count,
                       [](const Request& request) { return request.expected != kNoAnnouncement; });
  }

  std::uint32_t life_ = 0;
  NoWaker waker_;
  NoOwner owner_;
  verbs::testkit::FakeProvider provider_;
  verbs::Rail rail_;
  ProgressLoop loop_{waker_};
  std::unique_ptr<PeerLink> link_;
  std::optional<ProgressLoop::Guard> progress_lock_;
  std::vector<Record> records_ = std::vector<Record>(TransferPolicy{}.slots);
  RecvChannel* channel_ = nullptr;
};

// If writes of one queue pair overtook one another, the old entry could overwrite the newer one.
TEST_F(RecvChannelTest, RowsWrittenAgainLandBeforeTheNextAreWritten) {
  receive(100);
  QueuePair& express = link_->paths().express(kIndex);
  channel_->ask_rewrite();
  EXPECT_TRUE(link_->channels().rewrite_credits());
  const std::uint64_t posted = express.posted();
  EXPECT_EQ(posted, 2u);
  Request& next = channel_->next_slot();
  next.bytes = 10;
  static_cast<void>(channel_->publish(next));
  EXPECT_FALSE(channel_->post_at_once(next));
  EXPECT_TRUE(channel_->advance()) << "it waits";
  EXPECT_EQ(express.posted(), posted);
  express.retire_through(static_cast<std::uint32_t>(posted));
  EXPECT_FALSE(channel_->advance());
  EXPECT_EQ(express.posted(), posted + 1);
}

TEST_F(RecvChannelTest, AnnouncementOfTheLiveCreditCompletesOnce) {
  Request& request = receive(100);
  EXPECT_TRUE(has_live_credit());
  announce({.channel = kIndex, .slot = 0, .generation = generation()}, 64);
  std::size_t bytes = 0;
  EXPECT_TRUE(test(request, &bytes).ok());
  EXPECT_EQ(bytes, 64u);
  EXPECT_FALSE(has_live_credit());
  EXPECT_EQ(late(), 0u);
  announce({.channel = kIndex, .slot = 0, .generation = generation()}, 64);  // repeated
  EXPECT_EQ(late(), 1u);
  EXPECT_EQ(channel_->received(), 1u);
}

// NCCL's thread has passed its check, the channel fails, and only then the receive is published.
TEST_F(RecvChannelTest, ReceiveThatMeetsAFailedChannelGetsNoCredit) {
  Request& request = channel_->next_slot();
  request.bytes = 100;
  request.region = nullptr;
  channel_->fail_all(Errc::PeerClosed);
  static_cast<void>(channel_->publish(request));
  EXPECT_FALSE(channel_->post_at_once(request));
  EXPECT_FALSE(has_live_credit());
  EXPECT_FALSE(channel_->advance());
  EXPECT_EQ(request.state.load(), RequestState::Failed);
  EXPECT_EQ(request.error, Errc::PeerClosed);
}

TEST_F(RecvChannelTest, OtherGenerationIsIgnoredAndCounted) {
  Request& request = receive(100);
  for (const std::uint32_t off : {1u, 2u, 64u, kGenerationMask}) {
    announce({.channel = kIndex, .slot = 0, .generation = generation() - off}, 64);
    announce({.channel = kIndex, .slot = 0, .generation = generation() + off}, 64);
  }
  EXPECT_EQ(late(), 8u);
  EXPECT_EQ(request.state.load(), RequestState::Submitted);
  EXPECT_EQ(channel_->received(), 0u);
}

TEST_F(RecvChannelTest, SlotWithoutCreditOrOutOfRangeIsIgnoredAndCounted) {
  Request& request = receive(100);
  announce({.channel = kIndex, .slot = 1, .generation = generation()}, 64);
  announce({.channel = kIndex, .slot = 1, .generation = 0}, 64);
  announce({.channel = kIndex, .slot = TransferPolicy{}.slots, .generation = generation()}, 64);
  announce({.channel = kIndex, .slot = kSlotsMax - 1, .generation = generation()}, 64);
  EXPECT_EQ(late(), 4u);
  EXPECT_EQ(request.state.load(), RequestState::Submitted);
}

TEST_F(RecvChannelTest, UnknownChannelIsIgnoredAndCounted) {
  Request& request = receive(100);
  for (const std::uint32_t index : {0u, 10u, kChannelsMax - 1}) {
    announce({.channel = index, .slot = 0, .generation = generation()}, 64);
    announce({.stripes = 0, .channel = index, .slot = 0, .generation = generation()}, 0);
  }
  EXPECT_EQ(late(), 6u);
  EXPECT_EQ(request.state.load(), RequestState::Submitted);
}

TEST_F(RecvChannelTest, SendChannelIsIgnoredAndCounted) {
  progress_lock_.reset();
  const std::unique_ptr<PeerLink> sending = make_link(LinkRole::Connector);
  progress_lock_.emplace(loop_);
  sending->paths().order();
  std::vector<std::byte> credits(TransferPolicy{}.slots * kCreditBytesMax);
  sending->channels().add_sender(9, 1, credits.data());
  for (const std::uint32_t stripes : {0u, 1u})
    sending->channels().on_announcement(
        pack({.stripes = stripes, .channel = 9, .slot = 0, .generation = generation()}), 0);
  EXPECT_EQ(late(), 2u);
  sending->destroy_queue_pairs();
}

TEST_F(RecvChannelTest, FormerLifeOfTheIndexIsIgnoredAndCounted) {
  static_cast<void>(receive(100));
  const std::uint32_t former = generation();
  link_->channels().remove(kIndex);
  announce({.channel = kIndex, .slot = 0, .generation = former}, 64);
  EXPECT_EQ(late(), 1u);
  open(2);
  Request& request = receive(100);
  announce({.channel = kIndex, .slot = 0, .generation = former}, 64);
  EXPECT_EQ(late(), 2u);
  EXPECT_EQ(request.state.load(), RequestState::Submitted);
  announce({.channel = kIndex, .slot = 0, .generation = generation()}, 64);
  EXPECT_EQ(request.state.load(), RequestState::Done);
}

TEST_F(RecvChannelTest, StripesMayOvertakeTheRecord) {
  Request& request = receive(1 << 20);
  const Announcement stripe{.stripes = 0, .channel = kIndex, .slot = 0, .generation = generation()};
  announce(stripe);
  announce(stripe);
  EXPECT_EQ(request.state.load(), RequestState::Submitted);
  write_record(0, encode_record(700'000, 3, round_of(generation())));
  EXPECT_EQ(request.state.load(), RequestState::Submitted);
  announce(stripe);
  std::size_t bytes = 0;
  EXPECT_TRUE(test(request, &bytes).ok());
  EXPECT_EQ(bytes, 700'000u);
}

// Without a record each announcement tells the number of stripes and brings its own bytes.
TEST_F(RecvChannelTest, StripesThatSayHowManyTheyAreNeedNoRecord) {
  Request& request = receive(1 << 20);
  const Announcement stripe{.stripes = 3, .channel = kIndex, .slot = 0, .generation = generation()};
  announce(stripe, 300'000);
  announce(stripe, 300'000);
  EXPECT_EQ(request.state.load(), RequestState::Submitted);
  EXPECT_EQ(channel_->waiting(0).landed, 2u);
  announce(stripe, 99'999);
  std::size_t bytes = 0;
  EXPECT_TRUE(test(request, &bytes).ok());
  EXPECT_EQ(bytes, 699'999u);
  announce(stripe, 1);  // one too many
  EXPECT_EQ(late(), 1u);
}

TEST_F(RecvChannelTest, StripesOfMoreThanTheReceiveFailTheLink) {
  const testkit::LogCapture log;
  Request& request = receive(100);
  const Announcement stripe{.stripes = 2, .channel = kIndex, .slot = 0, .generation = generation()};
  announce(stripe, 60);
  announce(stripe, 41);
  EXPECT_EQ(test(request, nullptr).code(), Errc::Protocol);
  EXPECT_TRUE(log.warned("peer far: claims to have written 101 bytes into a receive of 100 bytes"));
}

TEST_F(RecvChannelTest, TheMostStripesThatCanSaySo) {
  Request& request = receive(1 << 20);
  const Announcement stripe{
      .stripes = kStripesTold, .channel = kIndex, .slot = 0, .generation = generation()};
  for (std::uint32_t i = 1; i < kStripesTold; ++i) announce(stripe, 1000);
  EXPECT_EQ(request.state.load(), RequestState::Submitted);
  announce(stripe, 1000);
  std::size_t bytes = 0;
  EXPECT_TRUE(test(request, &bytes).ok());
  EXPECT_EQ(bytes, 1000u * kStripesTold);
}

TEST_F(RecvChannelTest, RecordOfAnotherGenerationDoesNotCount) {
  Request& request = receive(1 << 20);
  write_record(
      0, encode_record(10, 1,
                       generation() + kGenerationMask + 1));  // equal within the immediate's bits
  announce({.stripes = 0, .channel = kIndex, .slot = 0, .generation = generation()});
  EXPECT_EQ(request.state.load(), RequestState::Submitted);
}

TEST_F(RecvChannelTest, TruncatedRecordFailsTheReceive) {
  const testkit::LogCapture log;
  Request& request = receive(100);
  write_record(0, encode_record(5000 | kRecordTruncated, 1, round_of(generation())));
  announce({.stripes = 0, .channel = kIndex, .slot = 0, .generation = generation()});
  EXPECT_EQ(test(request, nullptr).code(), Errc::Truncated);
  EXPECT_TRUE(log.warned("peer far: a send of 5000 bytes met a receive of 100 bytes"));
  EXPECT_EQ(link_->failure(), Errc::Ok);
}

// NCCL believes the size that it is told.
TEST_F(RecvChannelTest, AnnouncementOfMoreThanTheReceiveFailsTheLink) {
  const testkit::LogCapture log;
  Request& request = receive(100);
  announce({.channel = kIndex, .slot = 0, .generation = generation()}, 101);
  EXPECT_EQ(test(request, nullptr).code(), Errc::Protocol);
  EXPECT_EQ(link_->failure(), Errc::Protocol);
  EXPECT_TRUE(log.warned("peer far: claims to have written 101 bytes into a receive of 100 bytes"));
}

TEST_F(RecvChannelTest, RecordOfMoreThanTheReceiveFailsTheLink) {
  const testkit::LogCapture log;
  Request& request = receive(100);
  write_record(0, encode_record(1u << 30, 1, round_of(generation())));
  announce({.stripes = 0, .channel = kIndex, .slot = 0, .generation = generation()});
  EXPECT_EQ(test(request, nullptr).code(), Errc::Protocol);
  EXPECT_EQ(link_->failure(), Errc::Protocol);
}

// A peer may write with immediate before it has opened any channel.
TEST_F(RecvChannelTest, AnnouncementsOnALinkWithoutChannelsAreLate) {
  PeerLink link(loop_, owner_, LinkIdentity{.role = LinkRole::Acceptor, .peer_host = "far"},
                TransferPolicy{});
  for (const std::uint32_t imm :
       {0u, pack({.stripes = 2}), pack({.channel = kIndex, .slot = 3, .generation = 1}),
        UINT32_MAX}) {
    link.channels().on_announcement(imm, 64);
  }
  EXPECT_EQ(late(), 4u);
}

TEST_F(RecvChannelTest, NoImmediateLooksLikeASlotWithoutCredit) {
  static_cast<void>(receive(100));
  link_->channels().on_announcement(UINT32_MAX, 0);
  link_->channels().on_announcement(UINT32_MAX >> (32 - kStripesShift), 0);
  EXPECT_EQ(late(), 2u);
  EXPECT_EQ(channel_->received(), 0u);
}

TEST_F(RecvChannelTest, LateAnnouncementCannotReviveAFailedReceive) {
  Request& request = receive(100);
  channel_->fail_all(Errc::Revoked);
  announce({.channel = kIndex, .slot = 0, .generation = generation()}, 64);
  EXPECT_EQ(test(request, nullptr).code(), Errc::Revoked);
}

}  // namespace
}  // namespace mesh::engine
