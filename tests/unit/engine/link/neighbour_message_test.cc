// The questions and answers of neighbours as bytes: their codes, and bad input.
#include "engine/link/relay/neighbour_message.h"
#include "engine/control/wire_values.h"
#include "src/base/random.h"
#include "tests/prelude.h"

namespace mesh::engine {
namespace {

const verbs::DatagramPlace kPlace{.address = {0xfe, 0x80, 1}, .port = 7};

NeighbourAnswer sample() {
  return {
      .asker_rail = 1,
      .rail = 2,
      .ticket = {9, 8, 7},
      .port = 4711,
      .name = "host b",
      .addresses = {*SocketAddress::from_text("10.0.0.1"), *SocketAddress::from_text("fd00::1")}};
}

TEST(NeighbourMessage, AQuestionIsReadByItsKeyAtItsPlace) {
  const JobKey key = key_of_text("job");
  const Id128 nonce = random_id();
  const std::vector<JobKey> keys{key_of_text("before"), key, key_of_text("after")};
  const DatagramBytes bytes = bytes_of(NeighbourQuestion{.rail = 3, .nonce = nonce}, keys, kPlace);
  const auto read = question_of(bytes, key, kPlace);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->rail, 3);
  EXPECT_EQ(read->nonce, nonce);
  EXPECT_FALSE(question_of(bytes, key_of_text("jOb"), kPlace));
  EXPECT_FALSE(question_of(bytes, key_of_text("job", "another site"), kPlace));
  verbs::DatagramPlace elsewhere = kPlace;
  ++elsewhere.port;
  EXPECT_FALSE(question_of(bytes, key, elsewhere)) << "somebody has sent on what he heard";
}

TEST(NeighbourMessage, AnAnswerIsReadByItsKeyToItsQuestion) {
  const JobKey key = key_of_communicator(0x1234);
  const Id128 nonce = random_id();
  const DatagramBytes bytes = bytes_of(sample(), key, nonce);
  const auto read = answer_of(bytes, key, nonce);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->asker_rail, 1);
  EXPECT_EQ(read->rail, 2);
  EXPECT_EQ(read->ticket, sample().ticket);
  EXPECT_EQ(read->port, 4711);
  EXPECT_EQ(read->name, "host b");
  EXPECT_EQ(read->addresses, sample().addresses);
  EXPECT_FALSE(answer_of(bytes, key_of_communicator(0x1235), nonce));
  EXPECT_FALSE(answer_of(bytes, key_of_text("4"), nonce));
  EXPECT_FALSE(answer_of(bytes, key, random_id()));
}

TEST(NeighbourMessage, NoBitMayBeChanged) {
  const JobKey key = key_of_text("job");
  const Id128 nonce = random_id();
  const DatagramBytes question =
      bytes_of(NeighbourQuestion{.rail = 3, .nonce = nonce}, {&key, 1}, kPlace);
  const DatagramBytes answer = bytes_of(sample(), key, nonce);
  for (std::size_t bit = 0; bit < 8 * answer.size(); ++bit) {
    for (DatagramBytes bytes : {question, answer}) {
      if (bit / 8 >= bytes.size()) continue;
      bytes[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
      EXPECT_FALSE(question_of(bytes, key, kPlace)) << bit;
      EXPECT_FALSE(answer_of(bytes, key, nonce)) << bit;
    }
  }
  for (std::size_t length = 0; length < answer.size(); ++length)
    EXPECT_FALSE(answer_of(std::span(answer).first(length), key, nonce)) << length;
}

TEST(NeighbourMessage, TheTicketIsHiddenAnewInEachAnswer) {
  const JobKey key = key_of_text("job");
  NeighbourAnswer said = sample();
  said.ticket = random_id();
  const Id128 nonce = random_id();
  const DatagramBytes first = bytes_of(said, key, nonce), second = bytes_of(said, key, nonce);
  const auto shows = [&](const DatagramBytes& bytes) {
    const auto ticket = std::as_bytes(std::span(said.ticket));
    return std::search(bytes.begin(), bytes.end(), ticket.begin(), ticket.end()) != bytes.end();
  };
  EXPECT_FALSE(shows(first));
  EXPECT_NE(first, second);
}

TEST(NeighbourMessage, OfManyAddressesThoseThatFitAreTold) {
  NeighbourAnswer said = sample();
  said.name = std::string(100, 'x');
  said.addresses.assign(kControlAddressesMax, *SocketAddress::from_text("fd00::1"));
  const JobKey key = key_of_text("job");
  const Id128 nonce = random_id();
  const DatagramBytes bytes = bytes_of(said, key, nonce);
  EXPECT_LE(bytes.size(), verbs::kCableDatagramBytesMax);
  const auto read = answer_of(bytes, key, nonce);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->name, std::string(32, 'x'));
  EXPECT_GE(read->addresses.size(), 2u);
}

// A holder of the secret may still say nonsense.
TEST(NeighbourMessage, NonsenseOfAMemberIsRefused) {
  const JobKey key = key_of_text("job");
  const Id128 nonce = random_id();
  const auto refused = [&](auto&& change) {
    NeighbourAnswer said = sample();
    change(said);
    return !answer_of(bytes_of(said, key, nonce), key, nonce).has_value();
  };
  EXPECT_TRUE(refused([](NeighbourAnswer& said) { said.port = 0; }));
  EXPECT_TRUE(refused([](NeighbourAnswer& said) { said.ticket = {}; }));
  EXPECT_TRUE(refused([](NeighbourAnswer& said) { said.addresses.clear(); }));
  EXPECT_TRUE(refused([](NeighbourAnswer& said) { said.rail = kRailsMax; }));
  EXPECT_TRUE(refused([](NeighbourAnswer& said) { said.asker_rail = 255; }));
}

}  // namespace
}  // namespace mesh::engine
