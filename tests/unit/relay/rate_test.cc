// The rate of a chain on this machine, compared with memcpy. A middle host moves every byte twice,
// so one thread can carry at most half of memcpy's rate. Prints figures; there is no bar.

#include "src/base/clock.h"
#include "tests/prelude.h"
#include "tests/unit/relay/line.h"

namespace mesh::relay {
namespace {

using testkit::kEndBytes, testkit::Line, testkit::LineOptions;

constexpr std::uint64_t kMessageBytes = 1 << 20;
constexpr std::uint64_t kMessages = 48;
constexpr int kRounds = 5;  // the fastest counts, because others may use the processor
constexpr std::uint64_t kOutstanding = 8;

double gigabytes_per_second(std::uint64_t bytes, std::uint64_t ns) {
  return static_cast<double>(bytes) / static_cast<double>(std::max<std::uint64_t>(ns, 1));
}

template <typename Round>
double fastest(Round round) {
  double best = 0;
  for (int i = 0; i < kRounds; ++i) best = std::max(best, round());
  return best;
}

double memcpy_rate(const std::vector<std::byte>& from, std::vector<std::byte>& to) {
  const Clock clock;
  const std::uint64_t begin_ns = clock.now_ns();
  for (std::uint64_t i = 0; i < kMessages; ++i) {
    const std::size_t at = i * kMessageBytes % kEndBytes;
    std::memcpy(to.data() + at, from.data() + at, kMessageBytes);
  }
  return gigabytes_per_second(kMessages * kMessageBytes, clock.now_ns() - begin_ns);
}

// Sends messages of 1 MiB in work requests of `wr_bytes`, the last of each signaled.
double chain_rate(Line& line, std::uint32_t wr_bytes) {
  line.end(0).sent.clear();
  const Clock clock;
  const std::uint64_t begin_ns = clock.now_ns();
  for (std::uint64_t message = 0; message < kMessages; ++message) {
    EXPECT_TRUE(line.until_sent(0, message - std::min(message, kOutstanding - 1)));
    for (std::uint64_t done = 0; done < kMessageBytes; done += wr_bytes) {
      const std::size_t at = (message * kMessageBytes + done) % kEndBytes;
      const bool last = done + wr_bytes == kMessageBytes;
      EXPECT_EQ(line.post(0, {.wr_id = message,
                              .from = at,
                              .to = at,
                              .bytes = wr_bytes,
                              .flags = last ? static_cast<unsigned>(IBV_SEND_SIGNALED) : 0u}),
                0);
    }
  }
  EXPECT_TRUE(line.until_sent(0, kMessages));
  return gigabytes_per_second(kMessages * kMessageBytes, clock.now_ns() - begin_ns);
}

double fastest_of(std::uint32_t wr_bytes, std::size_t middles) {
  LineOptions options;
  options.middles = middles;
  options.send_depth = 256;
  options.wr_bytes = wr_bytes;
  options.payload_bytes = 4 << 20;
  Line line(options);
  return fastest([&] { return chain_rate(line, wr_bytes); });
}

TEST(Rate, IsPrintedBesideMemcpys) {
  std::vector<std::byte> from(kEndBytes, std::byte{1}), to(kEndBytes);
  const double copied = fastest([&] { return memcpy_rate(from, to); });
  std::printf("memcpy of 1 MiB: %.1f GB/s, its half %.1f\n", copied, copied / 2);
  for (const std::uint32_t wr_bytes : {64u << 10, 256u << 10}) {
    const double one = fastest_of(wr_bytes, 1), two = fastest_of(wr_bytes, 2);
    std::printf(
        "relayed in %u KiB: over one host %.1f GB/s, over two %.1f (memcpy's third: %.1f)\n",
        wr_bytes >> 10, one, two, copied / 3);
    EXPECT_GT(one, 0.0);
  }
}

}  // namespace
}  // namespace mesh::relay
