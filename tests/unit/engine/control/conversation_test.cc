#include "engine/control/conversation.h"

#include "tests/prelude.h"

namespace mesh::engine {
namespace {

constexpr Id128 kLink{7};

std::uint64_t say(Conversation& conversation, std::size_t bytes = 100) {
  const FrameHeader header = conversation.next_header(kLink);
  conversation.keep(Bytes(bytes, static_cast<std::byte>(header.sequence)));
  return header.sequence;
}
FrameHeader heard(std::uint64_t sequence, std::uint64_t acknowledged = 0) {
  return {.sequence = sequence, .acknowledged = acknowledged, .link = kLink};
}

TEST(Conversation, NumbersFromOneAndAcknowledgesWhatItTook) {
  Conversation ours;
  EXPECT_EQ(say(ours), 1u);
  EXPECT_EQ(ours.take(heard(1, 1)), Verdict::New);
  EXPECT_EQ(ours.take(heard(2, 1)), Verdict::New);
  const FrameHeader header = ours.next_header(kLink);
  EXPECT_EQ(header.sequence, 2u);
  EXPECT_EQ(header.acknowledged, 2u);
  EXPECT_EQ(header.link, kLink);
  const FrameHeader aside = ours.aside(kLink);
  EXPECT_EQ(aside.sequence, 0u);
  EXPECT_EQ(aside.acknowledged, 2u);
}

TEST(Conversation, KeepsWhatIsNotAcknowledgedInOrder) {
  Conversation ours;
  for (int i = 0; i < 5; ++i) say(ours);
  EXPECT_TRUE(ours.acknowledge(3));
  ASSERT_EQ(ours.unhandled().size(), 2u);
  EXPECT_EQ(ours.unhandled()[0][0], std::byte{4});
  EXPECT_EQ(ours.unhandled()[1][0], std::byte{5});
  EXPECT_TRUE(ours.acknowledge(1)) << "a frame said again carries its old word";
  EXPECT_EQ(ours.unhandled().size(), 2u);
  EXPECT_TRUE(ours.acknowledge(5));
  EXPECT_TRUE(ours.unhandled().empty());
  EXPECT_FALSE(ours.acknowledge(6)) << "never said";
}

TEST(Conversation, RepeatedIsKnownAndAGapIsBroken) {
  Conversation ours;
  EXPECT_EQ(ours.take(heard(1)), Verdict::New);
  EXPECT_EQ(ours.take(heard(1)), Verdict::Repeated);
  EXPECT_EQ(ours.take(heard(3)), Verdict::Broken);
  EXPECT_EQ(ours.handled(), 1u);
  EXPECT_EQ(ours.take(heard(2)), Verdict::New);
  EXPECT_EQ(ours.take(heard(3, 1)), Verdict::Broken) << "acknowledges what was never said";
  EXPECT_EQ(ours.take(heard(UINT64_MAX)), Verdict::Broken);
  EXPECT_EQ(ours.take(heard(0)), Verdict::New) << "aside: not counted";
  EXPECT_EQ(ours.handled(), 2u);
}

TEST(Conversation, OwesAWordAfterSoManyUnanswered) {
  Conversation ours;
  for (std::uint64_t i = 1; i < kAcknowledgeEvery; ++i) {
    ours.take(heard(i));
    EXPECT_FALSE(ours.owes_acknowledgement());
  }
  ours.take(heard(kAcknowledgeEvery));
  EXPECT_TRUE(ours.owes_acknowledgement());
  say(ours);
  EXPECT_FALSE(ours.owes_acknowledgement()) << "the answer carried it";
  for (std::uint64_t i = 1; i <= kAcknowledgeEvery; ++i) ours.take(heard(kAcknowledgeEvery + i));
  EXPECT_TRUE(ours.owes_acknowledgement());
  ours.acknowledged_now();
  EXPECT_FALSE(ours.owes_acknowledgement());
}

TEST(Conversation, IsOverfullAtItsBoundForGood) {
  Conversation ours;
  constexpr std::size_t kBytes = 1000;
  for (std::size_t i = 0; i < kOutboxBytesMax / kBytes; ++i) say(ours, kBytes);
  EXPECT_FALSE(ours.overfull());
  say(ours, kBytes);
  EXPECT_TRUE(ours.overfull());
  EXPECT_TRUE(ours.acknowledge(ours.said()));
  say(ours, 1);
  EXPECT_TRUE(ours.overfull()) << "one was not kept, nothing can be said again";
  EXPECT_TRUE(ours.unhandled().empty());
}

TEST(Conversation, ReleasedFramesMakeRoom) {
  Conversation ours;
  for (int i = 0; i < 100; ++i) {
    const std::uint64_t last = say(ours, kOutboxBytesMax);
    EXPECT_FALSE(ours.overfull());
    EXPECT_TRUE(ours.acknowledge(last));
  }
}

}  // namespace
}  // namespace mesh::engine
