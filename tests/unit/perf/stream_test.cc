#include "perf/driver/stream.h"

#include "src/base/socket.h"
#include "tests/prelude.h"
#include "tests/unit/perf/patience.h"

#include <netdb.h>

namespace {

constexpr std::string_view kLateHost = "late.invalid";
constexpr std::string_view kNeverHost = "never.invalid";
constexpr int kLookupsBefore = 3;  // one for each answer that may change

std::atomic<int> g_lookups{0};  // lookups of our two names; each test resets it

}  // namespace

// Replaces the C library's function. It does not know our two names at first; one appears later.
int getaddrinfo(const char* name, const char* service, const addrinfo* hints, addrinfo** found) {
  using Function = int (*)(const char*, const char*, const addrinfo*, addrinfo**);
  static const auto next = reinterpret_cast<Function>(::dlsym(RTLD_NEXT, "getaddrinfo"));
  const std::string_view host = name == nullptr ? std::string_view() : name;
  if (host != kLateHost && host != kNeverHost) return next(name, service, hints, found);
  constexpr int kAnswers[kLookupsBefore] = {EAI_NONAME, EAI_AGAIN, EAI_NODATA};
  const int lookup = g_lookups.fetch_add(1, std::memory_order_relaxed);
  if (host == kNeverHost || lookup < kLookupsBefore) return kAnswers[lookup % kLookupsBefore];
  return next("127.0.0.1", service, hints, found);
}

namespace mesh::driver {
namespace {

using SteadyClock = std::chrono::steady_clock;

TEST(Stream, ANameThatAppearsLateIsReached) {
  const auto listening = listen_at("127.0.0.1:0");
  ASSERT_TRUE(listening.ok());
  const auto port = local_port(listening->get());
  ASSERT_TRUE(port.ok());
  g_lookups.store(0, std::memory_order_relaxed);
  EXPECT_TRUE(connect_to(std::string(kLateHost) + ":" + std::to_string(*port),
                         SteadyClock::now() + kPatience)
                  .ok());
  EXPECT_EQ(g_lookups.load(std::memory_order_relaxed), kLookupsBefore + 1);
}

TEST(Stream, ANameThatNeverAppearsIsNotFoundAtTheDeadline) {
  g_lookups.store(0, std::memory_order_relaxed);
  const auto deadline = SteadyClock::now() + std::chrono::milliseconds(300);
  EXPECT_EQ(connect_to(std::string(kNeverHost) + ":1", deadline).code(), Errc::NotFound);
  EXPECT_GE(SteadyClock::now(), deadline);
  EXPECT_GE(g_lookups.load(std::memory_order_relaxed), 2);
}

TEST(Stream, APortThatIsNoneIsToldAtOnce) {
  const auto deadline = SteadyClock::now() + kPatience;
  EXPECT_EQ(connect_to("127.0.0.1", deadline).code(), Errc::NotFound);
  EXPECT_EQ(connect_to("127.0.0.1:no-such-port", deadline).code(), Errc::NotFound);
  EXPECT_LT(SteadyClock::now(), deadline);
}

}  // namespace
}  // namespace mesh::driver
