#pragma once
// The sockets of the control path: one listening socket per engine, control connections, frames
// with deadlines. Knows bytes and frames, nothing of links or channels. A stranger that says
// nothing, garbage or half a message is dropped at its deadline and holds no more memory than twice
// what it has sent of a frame; at most kStrangersMax unidentified connections exist, and at most an
// eighth of the descriptors that the process may have: then the oldest is dropped, and while that
// one is younger than kStrangerGraceNs the newcomers wait in the kernel's backlog. Where no
// descriptor is left the oldest is dropped at once, and a dial waits until its time is up. Thread:
// all calls from whoever holds the engine's control mutex; wake() and wait() from any. Nothing
// blocks except wait().

#include <mesh/config.h>
#include <mesh/status.h>

#include "engine/control/frames.h"
#include "src/base/clock.h"
#include "src/base/socket.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace mesh::engine {

// 256 in 10 ms each are 25,000 a second, as fast as they can be accepted: the backlog stays short
// and honest peers, whose first words are there by the time they are accepted, come through a flood
// in a few milliseconds.
inline constexpr int kStrangersMax = 256;
inline constexpr std::uint64_t kStrangersShare =
    8;  // one in so many of RLIMIT_NOFILE's soft limit at most
inline constexpr std::uint64_t kStrangerGraceNs =
    10'000'000;  // no stranger gives way to a newer one before
inline constexpr std::uint64_t kFirstFrameTimeoutNs =
    5'000'000'000;  // from accept to identify(), at its first frame
inline constexpr std::uint64_t kFrameTimeoutNs =
    10'000'000'000;  // from a frame's first byte to its last
inline constexpr std::uint64_t kDialTimeoutNs = 10'000'000'000;  // per address

using ConnectionId = std::uint64_t;  // never reused; 0 is none

class ControlEvents {
 public:
  virtual void on_dialed(ConnectionId id) = 0;  // the connection is up, send() works
  // A whole, well-formed header and its body. Answer false: the connection is dropped as by close()
  // (the handler has logged why).
  virtual bool on_frame(ConnectionId id, const FrameHeader& header,
                        std::span<const std::byte> body) = 0;
  // EOF, reset, deadline, malformed frame, dial failed on every address. text names the peer and
  // says why, one line. reason: PeerGone: the peer's kernel says that nobody is there (end of
  // stream, reset, every address refused). Unreachable, Timeout: nobody says anything. Protocol,
  // Exhausted: the connection is of no use. Not called after close(), from inside a call of the
  // plane other than poll_once, nor for a stranger that sent no whole frame.
  virtual void on_lost(ConnectionId id, Errc reason, const std::string& text) = 0;
  // A descriptor given to watch() may have something to read; again in the next pass, until it has
  // been read.
  virtual void on_readable(int fd) = 0;

 protected:
  ~ControlEvents() = default;
};

struct ControlPlaneOptions {
  std::string socket_ifname;  // NCCL_SOCKET_IFNAME: prefixes, "=" exact, "^" exclude
  std::string socket_family;  // "", AF_INET, AF_INET6
  Clock clock;                // deadlines
};

// Where to find a control port, and how long to wait for each of its addresses.
struct DialOrder {
  std::span<const SocketAddress> addresses;  // tried in order
  std::uint16_t port = 0;
  std::uint64_t timeout_ns = kDialTimeoutNs;
};

class ControlPlane {
 public:
  // Binds to the bootstrap interface by NCCL_SOCKET_IFNAME's rules (loopback only when nothing else
  // is up or it is named).
  static Result<std::unique_ptr<ControlPlane>> open(const ControlPlaneOptions& options,
                                                    ControlEvents& events);
  virtual ~ControlPlane() = default;

  virtual std::uint16_t port() const noexcept = 0;
  virtual std::span<const SocketAddress> addresses()
      const noexcept = 0;  // ours, the bootstrap interface's first

  virtual ConnectionId dial(const DialOrder& order) = 0;
  virtual bool send(
      ConnectionId id,
      Bytes frame) = 0;  // queued, bounded by 1 MiB per connection; false: no such connection
  virtual void identify(ConnectionId id) = 0;  // no longer a stranger: no first-frame deadline
  virtual void close(ConnectionId id) = 0;     // what was sent is still flushed for at most 1 s
  virtual std::string peer_name(ConnectionId id) const = 0;  // "10.0.0.2:4711"
  virtual SocketAddress peer_address(ConnectionId id) const = 0;

  // Somebody else's descriptor; ends wait(). It must stay open for as long as the plane lives, and
  // is let go when it hangs up.
  virtual Status watch(int fd) = 0;

  // One pass over ready sockets and deadlines, never blocking. True: something was done.
  virtual bool poll_once() = 0;
  // Blocks until poll_once has something to do, wake() is called, or timeout. Thread: the control
  // thread, without the mutex.
  virtual void wait(int timeout_ms) = 0;
  virtual void wake() noexcept = 0;
};

// Where an engine gets its control plane from when not from the kernel's sockets: a simulator's own
// network. Outlives the engine.
class ControlNetwork {
 public:
  virtual Result<std::unique_ptr<ControlPlane>> open(const ControlPlaneOptions& options,
                                                     ControlEvents& events) = 0;

 protected:
  ~ControlNetwork() = default;
};

}  // namespace mesh::engine
