// Memory is taken back while other threads turn the NICs. When the call returns, nobody reads or
// writes the memory any more. If somebody did, the scribbling below would be a data race for a
// race detector, and a wrong byte without one.

#include "src/soft/soft_provider.h"
#include "tests/contract/endpoint_pair.h"
#include "tests/prelude.h"
#include "tests/unit/soft/open_host.h"

namespace mesh::soft {
namespace {

constexpr std::uint32_t kBytes = 1 << 20;
constexpr int kRounds = 24;

class Fence : public ::testing::TestWithParam<CopyMode> {
 protected:
  void SetUp() override {
    const Result<FabricFile> fabric = parse(R"({"name": "pair",
      "hosts": [{"name": "a", "nics": [{"name": "mesh0", "address": "10.0.12.1/24"}]},
                {"name": "b", "nics": [{"name": "mesh0", "address": "10.0.12.2/24"}]}],
      "links": [{"ends": ["a/mesh0", "b/mesh0"]}]})");
    a_ = open(*fabric, "a");
    b_ = open(*fabric, "b");
    for (SoftProvider* provider : {a_.get(), b_.get()}) {
      turners_.emplace_back([this, provider] {
        while (!stop_.load(std::memory_order_acquire)) provider->turn();
      });
    }
  }
  void TearDown() override {
    stop_.store(true, std::memory_order_release);
    for (std::thread& turner : turners_) turner.join();
  }
  std::unique_ptr<SoftProvider> open(const FabricFile& fabric, const char* host) {
    return testkit::open_host({.fabric = fabric,
                               .host = host,
                               .copy = GetParam(),
                               .agent = Agent::None,
                               .clock = Clock()});
  }

  // Makes a connected pair with four large writes under way.
  void start(contract::Endpoint& from, contract::Endpoint& to) {
    ASSERT_TRUE(open_pair(from, *a_, to, *b_));
    std::memset(from.memory.data(), 1, kBytes);
    write(from, to, kBytes, 8);
    for (int i = 0; i < 4; ++i) write(from, to, 0, kBytes);
    // The small write is done, so the target copies the first large write, or is about to.
    std::atomic_ref word(*reinterpret_cast<std::uint64_t*>(to.memory.data() + kBytes));
    while (word.load(std::memory_order_acquire) == 0) std::this_thread::yield();
  }
  // In each round four large writes are under way while `act` takes away or breaks something.
  template <typename Act>
  void each_round(const Act& act) {
    for (int round = 0; round < kRounds; ++round) {
      contract::Endpoint from, to;
      ASSERT_NO_FATAL_FAILURE(start(from, to));
      ASSERT_NO_FATAL_FAILURE(act(from, to));
      close_endpoint(from);
      close_endpoint(to);
    }
  }
  static void write(contract::Endpoint& from, contract::Endpoint& to, std::size_t offset,
                    std::uint32_t bytes) {
    contract::SendRequest request = write_request(from, to, 0, bytes);
    request.wr.send_flags = 0;
    request.wr.wr.rdma.remote_addr += offset;
    EXPECT_EQ(post(from, request), 0);
  }
  // Writes from the end of each piece that the fabric copies at once, so that it meets a copy that
  // is still going on.
  static void scribble(contract::Endpoint& endpoint) {
    constexpr std::size_t kPiece = 256 * 1024, kStep = 4096;
    for (std::size_t end = kPiece; end > 0; end -= kStep)
      for (std::size_t piece = 0; piece < kBytes; piece += kPiece)
        std::memset(endpoint.memory.data() + piece + end - kStep, 0x77, kStep);
  }
  // Checks that the target holds old or new bytes, never the scribble.
  static void expect_no_scribble(const contract::Endpoint& endpoint) {
    EXPECT_EQ(std::memchr(endpoint.memory.data(), 0x77, kBytes), nullptr);
  }

  std::unique_ptr<SoftProvider> a_, b_;
  std::atomic<bool> stop_{false};
  std::vector<std::thread> turners_;
};

TEST_P(Fence, SourceIsFreeOnceItsQueuePairIsInError) {
  each_round([](contract::Endpoint& from, contract::Endpoint& to) {
    ASSERT_EQ(to_error(from), 0);
    scribble(from);
    ASSERT_EQ(to_error(to), 0);
    expect_no_scribble(to);
  });
}

TEST_P(Fence, SourceIsFreeOnceDeregistered) {
  each_round([this](contract::Endpoint& from, contract::Endpoint& to) {
    ASSERT_EQ(a_->dereg_mr(std::exchange(from.mr, nullptr)), 0);
    scribble(from);
    ASSERT_EQ(to_error(to), 0);
    expect_no_scribble(to);
  });
}

TEST_P(Fence, TargetIsFreeOnceDeregistered) {
  each_round([this](contract::Endpoint& from, contract::Endpoint& to) {
    ASSERT_EQ(b_->dereg_mr(std::exchange(to.mr, nullptr)), 0);
    std::memset(to.memory.data(), 0x33, kBytes);
    ASSERT_EQ(to_error(from), 0);
    for (std::size_t i = 0; i < kBytes; ++i) ASSERT_EQ(to.memory[i], std::byte{0x33});
  });
}

TEST_P(Fence, BothSidesFailAtOnce) {
  each_round([](contract::Endpoint& from, contract::Endpoint& to) {
    std::thread other([&] { EXPECT_EQ(to_error(to), 0); });
    ASSERT_EQ(to_error(from), 0);
    other.join();
  });
}

INSTANTIATE_TEST_SUITE_P(Copy, Fence, ::testing::Values(CopyMode::Auto, CopyMode::Cells),
                         [](const auto& mode) {
                           return mode.param == CopyMode::Cells ? "Cells" : "Memory";
                         });

}  // namespace
}  // namespace mesh::soft
