// A poller that has no work dozes, and callers turn its loops meanwhile.

#include "tests/prelude.h"
#include "tests/unit/engine/bed.h"
#include "tests/unit/engine/engine_host.h"
#include "tests/unit/engine/patience.h"

namespace mesh {
namespace {

using testkit::wait_until;

std::string first_line(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

// Returns how often all pollers of this process have gone to sleep, and how many there are.
struct Sleeps {
  std::uint64_t count = 0;
  int pollers = 0;
};
Sleeps sleeps() {
  Sleeps all;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    if (first_line(task.path() / "comm") != "mesh-poll") continue;
    ++all.pollers;
    std::ifstream status(task.path() / "status");
    for (std::string word; status >> word;) {
      if (word != "voluntary_ctxt_switches:") continue;
      std::uint64_t switches = 0;
      status >> switches;
      all.count += switches;
    }
  }
  return all;
}

class Doze : public testing::Test {
 protected:
  Doze() {
    for (std::size_t i = 0; i < hosts_.size(); ++i)
      hosts_[i].open(testkit::open_host(testkit::kCable, i), testkit::on_loopback(1));
    pair_ = testkit::connect(hosts_[0].member(), hosts_[1].member());
    exchange();
  }
  ~Doze() override {
    close(pair_.send);
    close(pair_.receive);
    for (testkit::EngineHost<>& host : hosts_) host.close_context(0);
    for (testkit::EngineHost<>& host : hosts_) host.close();
  }
  void exchange() { testkit::exchange(pair_, {0, 100, 100'000}, testkit::Leaves::Nothing); }
  // Waits until both pollers together have slept at most 40 times in a whole second. An idle poller
  // that does not doze sleeps thousands of times.
  static bool doze() {
    constexpr std::uint64_t kSleepsMax = 40;
    return wait_until([] {
      const std::uint64_t before = sleeps().count;
      std::this_thread::sleep_for(std::chrono::seconds(1));  // the span that is measured
      return sleeps().count - before <= kSleepsMax;
    });
  }

  std::array<testkit::EngineHost<>, 2> hosts_;
  testkit::Pair pair_;
};

TEST_F(Doze, APollerWithoutWorkHardlyWakes) {
  EXPECT_EQ(sleeps().pollers, 2);
  EXPECT_TRUE(doze());
}

TEST_F(Doze, MessagesGoOnWhileItDozesAndAfterwards) {
  for (int round = 0; round < 2; ++round) {
    ASSERT_TRUE(doze());
    for (int i = 0; i < 100; ++i) exchange();
  }
}

// Nobody tests the requests, so only pollers can carry them.
TEST_F(Doze, APollerComesBackForRequestsThatNobodyTests) {
  ASSERT_TRUE(doze());
  std::array<std::byte, 256> source{}, target{};
  Registration* const from =
      register_memory(*pair_.send, source.data(), source.size(), MemoryType::Host).value();
  Registration* const to =
      register_memory(*pair_.receive, target.data(), target.size(), MemoryType::Host).value();
  const auto received = [this] { return hosts_[1].engine->stats().messages_received; };
  const std::uint64_t before = received();
  Request* const receiving =
      irecv(*pair_.receive, {.data = target.data(), .bytes = target.size(), .region = to}).value();
  Request* const sending =
      isend(*pair_.send, {.data = source.data(), .bytes = source.size(), .region = from}).value();
  EXPECT_TRUE(wait_until([&] { return received() == before + 1; }));
  EXPECT_TRUE(wait_until([&] { return test(*receiving, nullptr).ok(); }));
  EXPECT_TRUE(wait_until([&] { return test(*sending, nullptr).ok(); }));
  deregister_memory(*pair_.send, from);
  deregister_memory(*pair_.receive, to);
}

}  // namespace
}  // namespace mesh
