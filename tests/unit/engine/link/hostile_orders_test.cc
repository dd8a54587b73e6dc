// A member says everything that it can, in every order and number, on one connection and on many at
// once, from several addresses. After each word the resources that it holds at the host are within
// their bounds. At the end nothing is left, and an honest member connects.

#include "engine/link/half_open.h"
#include "src/base/clock.h"
#include "src/base/timeouts.h"
#include "tests/prelude.h"
#include "tests/unit/base/log_capture.h"
#include "tests/unit/engine/link/raw_peer.h"

namespace mesh {
namespace {

using testkit::Bed, testkit::kA, testkit::kB, testkit::RawPeer;

enum class Word : std::uint8_t { Hello, Attach, Ready, Open, Resume, Summon, Close, Revoke };
constexpr std::uint32_t kWords = 8;
constexpr std::array<const char*, kWords> kNames{"HELLO",  "ATTACH", "READY", "OPEN",
                                                 "RESUME", "SUMMON", "CLOSE", "REVOKE"};

std::string text_of(const std::vector<Word>& words) {
  std::string text;
  for (const Word word : words)
    text += std::string(text.empty() ? "" : " ") + kNames[static_cast<std::size_t>(word)];
  return text;
}

// Says a word. `number` is the channel's number or the attempt's.
void say(RawPeer& peer, Word word, std::uint32_t number) {
  const engine::FrameHeader aside{.link = peer.link};
  switch (word) {
    case Word::Hello: return peer.say(peer.hello());
    case Word::Attach: {
      const engine::WirePath path{
          .mtu = 5, .qpn = {1, 2}, .psn = 3, .counters_address = 64, .counters_rkey = 1};
      return peer.say(engine::Attach{.paths = {path}});
    }
    case Word::Ready: return peer.say(engine::Ready{});
    case Word::Open:
      return peer.say(engine::Open{.listener = peer.handle.nonce,
                                   .channel = number,
                                   .life = 1,
                                   .credits_address = 64,
                                   .credits_rkey = {1}});
    case Word::Resume:
      return peer.send(
          engine::encode(aside, engine::Resume{{.connector_context = peer.context,
                                                .acceptor_context = peer.handle.context,
                                                .attempt = number}}));
    case Word::Summon:
      return peer.send(
          engine::encode(aside, engine::Summon{{.connector_context = peer.handle.context,
                                                .acceptor_context = peer.context,
                                                .attempt = number}}));
    case Word::Close: return peer.say(engine::Close{.channel = number, .messages = number});
    case Word::Revoke:
      return peer.say(engine::Revoke{.channel = number, .first_credit = 0, .credit_count = 1});
  }
}

std::size_t entries_of(const char* folder) {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder),
                                                std::filesystem::directory_iterator()));
}

class HostileOrders : public testing::Test {
 protected:
  static constexpr std::uint64_t kSecond = 1'000'000'000,
                                 kQueuePairsPerLink = 2;  // asked for by RawPeer

  HostileOrders() {
    renew_listener();
    bed_.rounds(10);
    descriptors_ = entries_of("/proc/self/fd");
    threads_ = entries_of("/proc/self/task");
  }
  // Replaces the listener. Channels that nobody has accepted end with the former one.
  void renew_listener() {
    if (listener_ != nullptr) bed_.hosts[1].engine->close_listener(listener_);
    listener_ = bed_.hosts[1].engine->listen(*bed_.hosts[1].contexts[0], 0, handle_).value();
    links_max_ = std::min(links_max_ + engine::kHalfOpenPerListenerMax, engine::kHalfOpenMax);
  }
  std::unique_ptr<RawPeer> member(const char* source = "127.0.0.1") {
    return std::make_unique<RawPeer>(bed_, handle_, std::array<std::uint8_t, 4>{10, 0, 1, 1},
                                     source);
  }
  static bool try_to_say(RawPeer& peer, Word word, std::uint32_t number) {
    try {
      say(peer, word, number);
      return true;
    } catch (const std::runtime_error&) {
      return false;  // the host has ended the connection
    }
  }
  // Checks the bounds. At most `carrying` links carry a channel. `connections` counts the members'
  // connections, whose ends are in our process too.
  void expect_bounds(std::uint64_t carrying, std::size_t connections) {
    const EngineStats now = bed_.stats(1);
    EXPECT_LE(now.links, links_max_ + carrying);
    EXPECT_LE(now.queue_pairs, (links_max_ + carrying) * kQueuePairsPerLink);
    EXPECT_LE(now.channels, engine::kArrivedMax);
    EXPECT_LE(now.pending_answers, 2 * now.channels + now.links);
    EXPECT_EQ(entries_of("/proc/self/task"), threads_);
    // A link may ask for a new connection over another one, and both flush for a second.
    EXPECT_LE(entries_of("/proc/self/fd"),
              descriptors_ + 4 * connections + 2 * (links_max_ + carrying) + 64);
  }
  void expect_nothing_left() {
    renew_listener();
    bed_.tick_ns = 1000;
    for (int i = 0; i < 4; ++i) {  // loss noticed, path time-out, handshake steps, goodbyes
      bed_.rounds(50);
      bed_.advance_ns(kHandshakeStepToAnswerNs);
    }
    bed_.rounds(50);
    EXPECT_EQ(bed_.stats(1).links + bed_.stats(1).queue_pairs + bed_.stats(1).channels, 0u);
    EXPECT_LE(entries_of("/proc/self/fd"), descriptors_ + bed_.hosts[0].engine->rails().size())
        << "a connector keeps a socket for each port";
  }
  void expect_an_honest_connect() {
    const std::uint64_t tick_ns = std::exchange(bed_.tick_ns, 10'000), began_ns = bed_.now_ns();
    testkit::Talk talk(bed_, kA, kB, 4096);
    EXPECT_LE(bed_.now_ns() - began_ns, kSecond);
    talk.exchange(4096);
    talk.end();
    bed_.tick_ns = tick_ns;
  }
  // Bounds the lines that the host has written since `began_ns` of the bed's time.
  void expect_few_lines(std::uint64_t began_ns) const {
    const auto windows = static_cast<int>((bed_.now_ns() - began_ns) / (10 * kSecond)) + 1;
    EXPECT_LE(log_.count(LogLevel::Warn, ""), 16 * windows + 128) << log_.joined().substr(0, 4000);
  }

  Bed bed_{{}};
  const testkit::LogCapture log_;
  HandleBytes handle_{};
  Listener* listener_ = nullptr;
  std::size_t links_max_ = 0;  // bound on links without a channel
  std::size_t descriptors_ = 0, threads_ = 0;
};

// Says all words at once, without waiting for an answer, and then ends the connection.
TEST_F(HostileOrders, EveryOrderOfUpToFourOnOneConnection) {
  constexpr std::uint32_t kChannels = 8;  // at a time
  const std::uint64_t began_ns = bed_.now_ns();
  std::uint32_t said = 0;
  for (std::uint32_t length = 1; length <= 4; ++length) {
    for (std::uint32_t order = 0; order < 1u << (3 * length); ++order, ++said) {
      std::vector<Word> words;
      for (std::uint32_t i = 0; i < length; ++i)
        words.push_back(static_cast<Word>(order >> (3 * i) & (kWords - 1)));
      {
        const auto peer = member();
        for (const Word word : words) {
          if (!try_to_say(*peer, word, 0)) break;
        }
        bed_.rounds(static_cast<int>(length) + 3);
        expect_bounds(kChannels, 1);
      }
      if (said % kChannels == 0) renew_listener();
      bed_.rounds(2);  // the host sees its end
      bed_.advance_ns(200'000'000);
      bed_.rounds(3);  // the host asks for the connection, and is refused
      if (said % 500 == 0) expect_an_honest_connect();
      ASSERT_FALSE(HasFailure()) << text_of(words);
    }
  }
  expect_few_lines(began_ns);
  expect_an_honest_connect();
  expect_nothing_left();
}

// Many connections from a few addresses, which take over one another's links, while time passes and
// the host does its part.
class RandomOrders {
 public:
  RandomOrders(std::uint32_t seed, std::size_t connections) : random_(seed), peers_(connections) {}
  std::uint32_t below(std::uint32_t bound) { return static_cast<std::uint32_t>(random_() % bound); }
  std::vector<std::unique_ptr<RawPeer>>& peers() { return peers_; }
  std::unique_ptr<RawPeer>& some_peer() {
    return peers_[below(static_cast<std::uint32_t>(peers_.size()))];
  }
  // Makes the peer go on with a link that another peer has named before.
  void take_over(RawPeer& peer) {
    if (const RawPeer* const other = some_peer().get(); other != nullptr)
      peer.link = other->link, peer.context = other->context;
  }

 private:
  std::mt19937 random_;
  std::vector<std::unique_ptr<RawPeer>> peers_;
};

TEST_F(HostileOrders, RandomOrdersOnManyConnectionsFromManyAddresses) {
  constexpr std::array kSources{"127.0.0.2", "127.0.0.3", "127.0.0.4",
                                "127.0.0.5", "127.0.0.6", "127.0.0.7"};
  constexpr std::array<std::uint64_t, 5> kSteps{1'000'000, 100'000'000, kSecond, 30 * kSecond,
                                                kHandshakeStepToAnswerNs};
  constexpr std::size_t kConnections = 40;
  for (std::uint32_t seed = 1; seed <= 40; ++seed) {
    RandomOrders orders(seed, kConnections);
    std::vector<Channel*> accepted;
    for (int step = 0; step < 400; ++step) {
      std::unique_ptr<RawPeer>& peer = orders.some_peer();
      const std::uint32_t dice = orders.below(32);
      if (!peer) {
        peer = member(kSources[orders.below(kSources.size())]);
        if (orders.below(4) == 0) orders.take_over(*peer);
        static_cast<void>(
            try_to_say(*peer, orders.below(4) == 0 ? Word::Resume : Word::Hello, orders.below(4)));
      } else if (dice < 20) {
        // Often a word in the order of an honest peer, otherwise any word.
        const auto word = static_cast<Word>(dice < 8 ? dice / 2 : orders.below(kWords));
        if (!try_to_say(*peer, word, orders.below(4))) peer.reset();
      } else if (dice < 24) {
        peer.reset();
      } else if (dice < 26) {
        bed_.advance_ns(kSteps[orders.below(kSteps.size())]);
      } else if (dice == 26) {
        renew_listener();
      } else if (dice < 29) {
        if (Channel* const channel = bed_.hosts[1].engine->accept(*listener_).value();
            channel != nullptr)
          accepted.push_back(channel);
      } else if (!accepted.empty()) {
        close(accepted.back());
        accepted.pop_back();
      }
      bed_.rounds(2);
      expect_bounds(engine::kArrivedMax, kConnections);
      ASSERT_FALSE(HasFailure()) << "seed " << seed << ", step " << step;
    }
    bed_.advance_ns(kHalfOpenToGiveWayNs);
    expect_an_honest_connect();
    for (Channel* const channel : accepted) close(channel);
    orders.peers().clear();
    expect_nothing_left();
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace mesh
