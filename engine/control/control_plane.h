#pragma once
// The sockets of the control path: the listening sockets of an engine, its control connections, and
// frames with deadlines. The plane knows bytes and frames, and nothing of links or channels.
//
// An unauthenticated connection is a connection that has not been identified. One that sends
// nothing, garbage or half a message is dropped at its deadline. It holds at most twice the memory
// of what it sent of a frame. At most kUnauthenticatedMax unauthenticated connections exist, and at
// most an eighth of the descriptors that the process may have. Beyond that the oldest
// unauthenticated connection is dropped. While the oldest one is younger than kAcceptToGiveWayNs,
// new connections wait in the kernel's backlog. When no descriptor is left, the oldest
// unauthenticated connection is dropped at once, and a dial waits until its time is up.
//
// Thread: all calls from the holder of the engine's control mutex, wake() and wait() from any.
// Only wait() blocks. Bounds: those above, and 1 MiB to send for each connection.

#include <mesh/config.h>
#include <mesh/status.h>

#include "engine/control/frames.h"
#include "src/base/clock.h"
#include "src/base/socket.h"
#include "src/base/timeouts.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace mesh::engine {

// 256 unauthenticated connections in kAcceptToGiveWayNs are 25,000 a second, as fast as they can be
// accepted. So the backlog stays short. The first words of an honest peer have arrived by the time
// it is accepted, so it comes through a flood in a few milliseconds.
inline constexpr int kUnauthenticatedMax = 256;
// Unauthenticated connections get at most this part of RLIMIT_NOFILE's soft limit: an eighth.
inline constexpr std::uint64_t kUnauthenticatedShare = 8;

using ConnectionId = std::uint64_t;  // never reused; 0 is none

class ControlEvents {
 public:
  virtual void on_dialed(ConnectionId id) = 0;  // the connection is up, and send() works
  // Gets a well-formed header and its whole body. If it returns false the connection is dropped as
  // by close(); the handler has logged why.
  virtual bool on_frame(ConnectionId id, const FrameHeader& header,
                        std::span<const std::byte> body) = 0;
  // The connection has ended: end of stream, reset, deadline, malformed frame, or a dial that
  // failed on every address. `text` is one line that names the peer and says why. Reasons:
  //   PeerGone               the peer's kernel says that nobody is there
  //   Unreachable, Timeout   nobody answers
  //   Protocol, Exhausted    the connection is of no use
  // Never called after close(), nor from a call of the plane other than poll_once(), nor for a
  // unauthenticated connection that sent no whole frame.
  virtual void on_lost(ConnectionId id, Errc reason, const std::string& text) = 0;
  // A descriptor given to watch() may have something to read. Called in every pass until it has
  // been read.
  virtual void on_readable(int fd) = 0;

 protected:
  ~ControlEvents() = default;
};

struct ControlPlaneOptions {
  std::string socket_ifname;  // NCCL_SOCKET_IFNAME: prefixes, "=" for exact names, "^" to exclude
  std::string socket_family;  // "", AF_INET, AF_INET6
  Clock clock;                // for deadlines
};

// The addresses of a control port, and how long to wait for each of them.
struct DialOrder {
  std::span<const SocketAddress> addresses;  // tried in order, and again if several are silent
  std::uint16_t port = 0;
  std::uint64_t timeout_ns = kDialToAnswerNs;  // for each address
};

class ControlPlane {
 public:
  // Binds to the bootstrap interface by the rules of NCCL_SOCKET_IFNAME. Loopback is used only when
  // it is named or nothing else is up.
  static Result<std::unique_ptr<ControlPlane>> open(const ControlPlaneOptions& options,
                                                    ControlEvents& events);
  virtual ~ControlPlane() = default;

  virtual std::uint16_t port() const noexcept = 0;
  // Our own addresses, the bootstrap interface's first.
  virtual std::span<const SocketAddress> addresses() const noexcept = 0;

  virtual ConnectionId dial(const DialOrder& order) = 0;
  // Queues the frame. Returns false if the connection is lost, closed or full.
  virtual bool send(ConnectionId id, Bytes frame) = 0;
  // The connection is authenticated from now on, and has no deadline for its first frame.
  virtual void identify(ConnectionId id) = 0;
  virtual void close(ConnectionId id) = 0;  // queued frames are still flushed, for at most 1 s
  virtual std::string peer_name(ConnectionId id) const = 0;  // "10.0.0.2:4711"
  virtual SocketAddress peer_address(ConnectionId id) const = 0;
  // Returns the address of ours that the connection uses; none if it is not up.
  virtual SocketAddress own_address(ConnectionId id) const = 0;

  // Watches a descriptor of another owner; when it is readable, wait() ends. The plane forgets a
  // descriptor that hangs up, and one that its owner closes.
  virtual Status watch(int fd) = 0;

  // Makes one pass over ready sockets and deadlines, and never blocks. Returns true if it did work.
  virtual bool poll_once() = 0;
  // Blocks until poll_once() has something to do, wake() is called, or the time is up. Thread: the
  // control thread, without the mutex.
  virtual void wait(int timeout_ms) = 0;
  virtual void wake() noexcept = 0;
};

// Makes control planes that do not use the kernel's sockets, such as those of a simulator's
// network. Outlives the engine.
class ControlNetwork {
 public:
  virtual Result<std::unique_ptr<ControlPlane>> open(const ControlPlaneOptions& options,
                                                     ControlEvents& events) = 0;

 protected:
  ~ControlNetwork() = default;
};

}  // namespace mesh::engine
