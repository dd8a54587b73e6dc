#pragma once
// The control plane on the kernel's sockets. A connection is looked up by its id before every use,
// because any callback may close any connection. Thread: as ControlPlane. Bounds: kEventsPerPass
// events and kAcceptsPerPass accepts in one pass, kUnauthenticatedMax unauthenticated connections.

#include "engine/control/control_connection.h"
#include "engine/control/control_listener.h"
#include "engine/control/control_plane.h"
#include "src/base/log_budget.h"
#include "src/base/one_at_a_time.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <unordered_map>

namespace mesh::engine {

class Plane final : public ControlPlane {
 public:
  static constexpr std::size_t kEventsPerPass = 64;
  // Marks the key of a descriptor of another owner. Connection ids never grow so large.
  static constexpr std::uint64_t kForeignBit = std::uint64_t{1} << 63;
  static constexpr int kAcceptsPerPass = 64;
  static constexpr std::uint64_t kListenerKey = std::numeric_limits<std::uint64_t>::max();

  Plane(const Clock& clock, ControlEvents& events) : clock_(clock), events_(events) {}

  Status open(const ControlPlaneOptions& options);

  std::uint16_t port() const noexcept override { return listener_.port; }
  std::span<const SocketAddress> addresses() const noexcept override { return listener_.addresses; }

  ConnectionId dial(const DialOrder& order) override;
  bool send(ConnectionId id, Bytes frame) override;
  void identify(ConnectionId id) override;
  void close(ConnectionId id) override;
  std::string peer_name(ConnectionId id) const override;
  SocketAddress peer_address(ConnectionId id) const override;
  SocketAddress own_address(ConnectionId id) const override;

  Status watch(int fd) override;

  bool poll_once() override;
  void wait(int timeout_ms) override;
  void wake() noexcept override { watcher_.wake(); }

 private:
  Connection* find(ConnectionId id) const;
  Connection& add();
  void erase(ConnectionId id);
  void lose(ConnectionId id, const Loss& loss);
  void lose_later(Connection& connection, Loss loss);
  void lose_for_memory(ConnectionId id) noexcept;
  void prepare_dial(Connection& connection, const DialOrder& order);
  void drop_socket(Connection& connection);
  void update_watch(Connection& connection);
  void note_deadline(std::uint64_t deadline_ns) noexcept;

  bool on_event(ConnectionId id, std::uint32_t events);
  void on_foreign_event(int fd, std::uint32_t events);
  bool read_frame(ConnectionId id);
  void deliver(ConnectionId id);
  void advance_dial(ConnectionId id);
  void start_dial(Connection& connection);
  bool await_descriptor(Connection& connection);
  void advance_close(ConnectionId id);

  // unauthenticated.cc
  bool accept_connections();
  bool accept_from(int listener);
  bool make_room();
  void dismiss_oldest();
  void adopt(AcceptedSocket accepted);
  void welcome(Connection& connection, AcceptedSocket accepted);
  bool crowded() const noexcept { return unauthenticated_.size() >= unauthenticated_max_; }
  void forget_unauthenticated(ConnectionId id);
  void pause_accepting(std::uint64_t until_ns);
  void resume_accepting();

  bool expire(std::uint64_t now_ns);  // returns true if something was due
  void on_deadline(ConnectionId id);

  mutable OneAtATime calls_;
  Clock clock_;
  ControlEvents& events_;
  SocketWatcher watcher_;
  ControlListener listener_;
  std::unordered_map<ConnectionId, std::unique_ptr<Connection>> connections_;
  std::set<ConnectionId> unauthenticated_;  // ids grow, so the first is the oldest
  std::size_t unauthenticated_max_ = kUnauthenticatedMax;
  LogBudget unauthenticated_lines_, accept_lines_;
  ConnectionId last_id_ = 0;
  std::uint64_t accept_again_ns_ = kNever;  // kNever: connections are accepted
  bool accept_failed_ = false;              // the last accept failed
  // Never later than the nearest deadline. Released by the owner, acquired in wait().
  std::atomic<std::uint64_t> next_deadline_ns_{kNever};
};

}  // namespace mesh::engine
