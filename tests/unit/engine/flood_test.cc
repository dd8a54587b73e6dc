// An unauthenticated peer opens ten thousand connections to the control port. The handshake of an
// honest peer takes at most a second longer, and the process grows by at most 8 MiB. Prints the
// measurements; run it alone for good figures.

#include "tests/unit/engine/flood.h"
#include "engine/control/handle.h"
#include "src/base/unique_fd.h"

#include <gtest/gtest.h>

#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <cstdio>

namespace mesh {
namespace {

using testkit::FloodTest, testkit::kDelayMaxMs, testkit::kGrowthMaxKb, testkit::resident_kb;

constexpr int kConnections = 10'000;

enum class Kind { Silent, Garbage, HalfHeader, HalfBody, WrongHello, Mixed };
constexpr std::array kKinds{Kind::Silent,   Kind::Garbage,    Kind::HalfHeader,
                            Kind::HalfBody, Kind::WrongHello, Kind::Mixed};

const char* name_of(Kind kind) {
  switch (kind) {
    case Kind::Silent: return "nothing";
    case Kind::Garbage: return "garbage";
    case Kind::HalfHeader: return "half a header";
    case Kind::HalfBody: return "half a body";
    case Kind::WrongHello: return "a hello without the secret";
    case Kind::Mixed: return "all of these";
  }
  return "";
}

// Returns the bytes that an unauthenticated peer of that kind sends.
engine::Bytes words(Kind kind) {
  engine::Hello hello;
  hello.host = "unauthenticated";
  hello.qps = 1, hello.rq_depth = 16, hello.slots = 32;
  hello.rails.resize(1);
  hello.rails[0].addresses.resize(1);
  hello.rails[0].mtu = 5;
  hello.control_port = 1;
  hello.control_addresses = {SocketAddress::any(AF_INET)};
  hello.listeners.resize(1);
  engine::Bytes frame = engine::encode({.sequence = 1}, hello);
  switch (kind) {
    case Kind::Garbage: return engine::Bytes(100, std::byte{'G'});
    case Kind::HalfHeader: frame.resize(17); return frame;
    case Kind::HalfBody:
      frame.resize(engine::kFrameHeaderBytes + engine::kBodyBytesMax - 1);
      frame[8] = std::byte{0}, frame[9] = std::byte{engine::kBodyBytesMax >> 8};
      return frame;
    case Kind::WrongHello: return frame;
    case Kind::Silent:
    case Kind::Mixed: break;
  }
  return {};
}

// Opens all connections from a child process, which makes only system calls after fork(). Holds as
// many as the limit allows, reports their number, and ends when told.
class Flood {
 public:
  Flood(const engine::Handle& handle, Kind kind) {
    std::array<engine::Bytes, 5> said;
    for (std::size_t i = 0; i < said.size(); ++i) said[i] = words(kKinds[i]);
    sockaddr_storage to{};
    const socklen_t to_bytes = handle.addresses.front().to_sockaddr(handle.port, to);
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    std::vector<int> held(std::min<std::size_t>(limit.rlim_max, kConnections + 64) - 64, -1);
    EXPECT_EQ(::pipe(done_.data()), 0);
    EXPECT_EQ(::pipe(end_.data()), 0);
    child_ = ::fork();
    if (child_ != 0) return;
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &limit);
    int opened = 0;
    for (int i = 0; i < kConnections; ++i) {
      int& fd = held[static_cast<std::size_t>(i) % held.size()];
      if (fd >= 0) ::close(fd);
      fd = ::socket(to.ss_family, SOCK_STREAM | SOCK_NONBLOCK, 0);
      if (fd < 0) continue;
      if (::connect(fd, reinterpret_cast<const sockaddr*>(&to), to_bytes) == 0 ||
          errno == EINPROGRESS)
        ++opened;
      const engine::Bytes& text =
          said[kind == Kind::Mixed ? static_cast<std::size_t>(i) % said.size()
                                   : static_cast<std::size_t>(kind)];
      if (!text.empty()) static_cast<void>(!::send(fd, text.data(), text.size(), MSG_NOSIGNAL));
    }
    static_cast<void>(!::write(done_[1], &opened, sizeof opened));
    char byte = 0;
    ::close(end_[1]);
    static_cast<void>(!::read(end_[0], &byte, 1));
    ::_exit(0);
  }
  // Returns the number of connections that were opened, or -1 while the child still opens them.
  int opened() {
    int opened = -1;
    pollfd ready{.fd = done_[0], .events = POLLIN, .revents = 0};
    if (::poll(&ready, 1, 0) == 1 && ::read(done_[0], &opened, sizeof opened) != sizeof opened)
      opened = 0;
    return opened;
  }
  void finish() {
    for (const int fd : {end_[0], end_[1], done_[0], done_[1]}) ::close(fd);
    ::waitpid(child_, nullptr, 0);
  }

 private:
  std::array<int, 2> done_{}, end_{};
  pid_t child_ = -1;
};

TEST_F(FloodTest, NeitherDelaysAHandshakeNorFillsTheMemory) {
  const engine::Handle handle = *engine::read_handle(handle_);
  const double quiet_ms = longest_ms(10);
  std::printf("%-28s %12s %12s %14s %12s\n", "10000 unauthenticated", "connections", "handshakes",
              "longest, ms", "growth, KiB");
  std::printf("%-28s %12d %12d %14.1f %12d\n", "(none)", 0, 10, quiet_ms, 0);
  const std::int64_t before_kb = resident_kb();
  for (const Kind kind : kKinds) {
    Flood flood(handle, kind);
    double longest = 0;
    std::int64_t growth_kb = 0;
    int handshakes = 0, opened = -1;
    while (opened < 0) {
      longest = std::max(longest, handshake_ms());
      growth_kb = std::max(growth_kb, resident_kb() - before_kb);
      ++handshakes;
      opened = flood.opened();
    }
    longest = std::max(longest, longest_ms(2));  // while the child still holds connections
    growth_kb = std::max(growth_kb, resident_kb() - before_kb);
    flood.finish();
    std::printf("%-28s %12d %12d %14.1f %12lld\n", name_of(kind), opened, handshakes + 2, longest,
                static_cast<long long>(growth_kb));
    EXPECT_EQ(opened, kConnections);
    EXPECT_LE(longest, quiet_ms + kDelayMaxMs) << name_of(kind);
    EXPECT_LE(growth_kb, kGrowthMaxKb) << name_of(kind);
  }
}

}  // namespace
}  // namespace mesh
