#pragma once
// Control planes over loopback, a recorder of the events that they report, and raw TCP clients that
// misbehave. Thread: the test's. Bound: kWaitMaxNs of real time for anything that the kernel does
// on its own.

#include "engine/control/control_plane.h"
#include "src/base/log.h"
#include "tests/prelude.h"

namespace mesh::engine {

inline constexpr std::uint64_t kWaitMaxNs = 20'000'000'000;
inline constexpr std::uint64_t kSecondNs = 1'000'000'000;

struct Recorder final : ControlEvents {
  struct Frame {
    ConnectionId id = 0;
    FrameHeader header;
    Bytes body;
  };
  struct Lost {
    ConnectionId id = 0;
    Errc reason = Errc::Ok;
    std::string text;
  };

  std::vector<ConnectionId> dialed;
  std::vector<Frame> frames;
  std::vector<Lost> lost;
  std::function<void(ConnectionId)> when_dialed;
  std::function<bool(const Frame&)> when_frame;
  std::function<void(const Lost&)> when_lost;
  std::vector<int> readable;

  void on_dialed(ConnectionId id) override {
    dialed.push_back(id);
    if (when_dialed) when_dialed(id);
  }
  bool on_frame(ConnectionId id, const FrameHeader& header,
                std::span<const std::byte> body) override {
    frames.push_back({id, header, Bytes(body.begin(), body.end())});
    return when_frame ? when_frame(Frame(frames.back())) : true;
  }
  void on_lost(ConnectionId id, Errc reason, const std::string& text) override {
    lost.push_back({id, reason, text});
    if (when_lost) when_lost(Lost(lost.back()));
  }
  void on_readable(int fd) override { readable.push_back(fd); }
};

inline std::vector<std::string>& log_lines() {
  static std::vector<std::string> lines;
  return lines;
}

inline std::size_t open_descriptors() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
    ++count;
  return count;
}

inline Bytes frame_of(std::uint64_t sequence, std::size_t body_bytes = 0) {
  // Makes a header with any body, because the plane does not look into bodies.
  FrameHeader header;
  header.sequence = sequence;
  Bytes frame = encode(header, Bye{});
  for (std::size_t i = 0; i < body_bytes; ++i)
    frame.push_back(static_cast<std::byte>(sequence + i));
  for (std::size_t i = 0; i < 4; ++i)
    frame[8 + i] = static_cast<std::byte>((body_bytes >> (8 * i)) & 0xff);
  return frame;
}

// Two planes on clocks moved by hand: "ours", which is under test, and "theirs".
class ControlPlaneTest : public ::testing::Test {
 protected:
  void SetUp() override {
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &limit);
    log_lines().clear();
    set_log_sink(
        [](LogLevel, const char*, int, const char* text) { log_lines().emplace_back(text); });
    ours_ = open(our_events_, our_clock_ns_);
    theirs_ = open(their_events_, their_clock_ns_);
    ASSERT_TRUE(ours_ && theirs_);
  }
  void TearDown() override {
    ours_.reset();
    theirs_.reset();
    set_log_sink(nullptr);
  }

  static std::unique_ptr<ControlPlane> open(ControlEvents& events,
                                            const std::atomic<std::uint64_t>& clock_ns) {
    ControlPlaneOptions options;
    options.socket_ifname = "lo";
    options.socket_family = "AF_INET";
    options.clock = Clock(&clock_ns);
    Result<std::unique_ptr<ControlPlane>> plane = ControlPlane::open(options, events);
    return plane.ok() ? std::move(*plane) : nullptr;
  }

  // Polls both planes once. Returns true if either of them did something.
  bool poll_both() {
    const bool ours = ours_ && ours_->poll_once();
    const bool theirs = theirs_ && theirs_->poll_once();
    return ours || theirs;
  }
  // Turns both planes until the condition holds. The kernel moves bytes over loopback in its own
  // time, hence the bound in real time.
  bool turn_until(const std::function<bool()>& condition) {
    const Clock wall;
    const std::uint64_t end_ns = wall.now_ns() + kWaitMaxNs;
    while (!condition()) {
      const bool active = poll_both();
      if (!active) ::sched_yield();
      if (wall.now_ns() > end_ns) return false;
    }
    return true;
  }
  // Turns until neither plane does anything more. Covers only bytes that are already in the
  // sockets: a busy kernel may deliver others some turns later.
  void turn_until_idle() {
    constexpr int kIdleTurns = 300;
    int idle = 0;
    while (idle < kIdleTurns) {
      const bool active = poll_both();
      idle = active ? 0 : idle + 1;
      ::sched_yield();
    }
  }

  static SocketAddress loopback(const char* text = "127.0.0.1") {
    return *SocketAddress::from_text(text);
  }
  ConnectionId dial_theirs() {
    const std::vector<SocketAddress> addresses{loopback()};
    return ours_->dial({addresses, theirs_->port()});
  }
  // Returns a raw TCP client that is connected to our plane.
  UniqueFd raw_client(const char* address = "127.0.0.1") {
    sockaddr_storage storage{};
    const socklen_t bytes = loopback(address).to_sockaddr(ours_->port(), storage);
    UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&storage), bytes), 0);
    return fd;
  }
  static void raw_send(const UniqueFd& fd, std::span<const std::byte> bytes) {
    EXPECT_EQ(::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  // Returns true if the peer closed or reset the connection.
  static bool raw_ended(const UniqueFd& fd) {
    char byte = 0;
    const ssize_t got = ::recv(fd.get(), &byte, 1, MSG_DONTWAIT);
    return got == 0 || (got < 0 && errno != EAGAIN);
  }
  static bool logged(const std::string& part) {
    return std::any_of(log_lines().begin(), log_lines().end(), [&](const std::string& line) {
      return line.find(part) != std::string::npos;
    });
  }

  std::atomic<std::uint64_t> our_clock_ns_{0};
  std::atomic<std::uint64_t> their_clock_ns_{0};
  Recorder our_events_;
  Recorder their_events_;
  std::unique_ptr<ControlPlane> ours_;
  std::unique_ptr<ControlPlane> theirs_;
};

}  // namespace mesh::engine
