#pragma once
// The place where processes of one fabric meet. Each process that is a host has an abstract unix
// socket, and binding it claims a slot of the host (host_state.h). A process that sends to another
// one connects to it, shows its board, and offers rings as memfds; end of file means that the
// process is lost. A process that becomes the same host connects and gets the host's state. A
// process that orders a fault connects, says which, and gets an answer (fault_door.h).
//
// Only processes of the same user are let in, before anything is read. Others can still take a
// host's name first (a line says who has it), and keep its thread busy with connections. Hosts meet
// in one network namespace; in two of them a name can be claimed twice, and each is a fabric of its
// own.
//
// Thread: peer() and offer() from any, poll_once() from one thread. poll_once() waits for its
// timeout, and peer() up to 5 s for a host whose queue of connections is full. Bounds:
// kConnectionsMax; 64 connections are accepted in a row; LogBudget's lines.

#include <mesh/status.h>

#include "src/base/log_budget.h"
#include "src/base/unique_fd.h"
#include "src/soft/board.h"
#include "src/soft/datagrams.h"
#include "src/soft/fault_door.h"
#include "src/soft/host_state.h"
#include "src/soft/nic.h"
#include "src/soft/soft_provider.h"
#include "src/soft/unix_socket.h"

#include <sys/epoll.h>

#include <compare>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace mesh::soft {

// The part of a host that others in this process may use.
class LocalHost {
 public:
  virtual const std::shared_ptr<HostState>& state() = 0;
  virtual void look_at_ports() = 0;  // so that they say at once that they have changed
  virtual const std::shared_ptr<Peer>& self() = 0;  // the host as others see it, with its board
  virtual void take_offer(const Offer& offer) = 0;
  virtual void take_datagram(const SoftDatagram& datagram) = 0;

 protected:
  ~LocalHost() = default;
};

// The hosts of software fabrics in this process. Two of them meet here and are joined by memory.
// Thread: any; calls hold one mutex, under which a visitor may take turn locks, never the other way
// round. Bound: the hosts that are open.
class Registry {
 public:
  static Registry& instance();

  // A process of a host. The universe separates hosts that must not meet: those of another
  // file or another manual clock.
  struct Place {
    std::string universe, host;
    int slot = 0;
    friend auto operator<=>(const Place&, const Place&) = default;
  };
  // Claims a place. Returns false if it is taken.
  bool claim(const Place& place);
  void open(const Place& place, LocalHost* owner);  // others may visit it from now on
  void release(const Place& place);
  // Calls `use` with the host while it cannot go away. Returns false if it is not in this process.
  bool visit(const Place& place, const std::function<void(LocalHost&)>& use);
  // Calls `use` with each slot of the place's host that is in this process.
  void visit_all(Place place, const std::function<void(LocalHost&)>& use);

 private:
  std::mutex mutex_;
  std::map<Place, LocalHost*> hosts_;
};

inline constexpr std::size_t kConnectionsMax = 4096;

// Calls of the rendezvous to its host, from within poll_once().
class RendezvousEvents {
 public:
  virtual void take_offer(const Offer& offer) = 0;
  virtual void take_datagram(const SoftDatagram& datagram) = 0;
  virtual void peer_changed(const Peer& peer) = 0;
  virtual FaultAnswer take_fault(const FaultOrder& order) = 0;

 protected:
  ~RendezvousEvents() = default;
};

struct RendezvousOptions {
  std::string universe, host;
  int slot = 0;
  CopyMode copy = CopyMode::Auto;
  Board* board = nullptr;  // ours, outlives the rendezvous
  RendezvousEvents* events = nullptr;
  int state_fd = -1;  // of the host's state, as the board
  int shown_fd = -1;  // of that state, for other hosts; -1: they need none
};

class Rendezvous {
 public:
  // Claims the slot. Returns Exhausted if another process has claimed it.
  static Result<std::unique_ptr<Rendezvous>> open(const RendezvousOptions& options);
  ~Rendezvous();

  // Returns a host in another process. If there is none, returns a peer that is already lost.
  std::shared_ptr<Peer> peer(const std::string& host, int slot);
  void offer(const Peer& peer, const Offer& offer);
  void carry(const Peer& peer, const SoftDatagram& datagram);

  // Handles what has arrived. Waits for it at most timeout_ms (-1: without end), or until our board
  // is woken.
  void poll_once(int timeout_ms);

 private:
  struct Message {
    std::vector<std::byte> bytes;
    std::vector<UniqueFd> fds;
    std::vector<int> lent;  // descriptors that outlive the rendezvous
  };
  struct Connection {
    UniqueFd fd;
    std::shared_ptr<Peer> peer;  // null before the HELLO of an accepted connection
    bool accepted = false;
    int slot = 0;  // of the peer, where we have connected
    pid_t pid = 0;
    bool readable = false;  // accepted: process_vm_readv can read the peer's memory
    bool waits_for_room = false;
    std::deque<Message> outbox;
  };
  explicit Rendezvous(const RendezvousOptions& options) : options_(options) {}
  bool watch(int fd, std::uint64_t id, std::uint32_t events, int how);
  Connection* add(UniqueFd fd, std::uint64_t* id);
  // Returns the peer of a connection of ours that is not lost, or null.
  std::shared_ptr<Peer> met(const std::string& host, int slot) const;
  void look_at(const epoll_event& event);
  void warn(const std::string& what);
  void accept_some();
  void pause_accepting(int error);
  int resume_accepting(int timeout_ms);
  void receive_all(std::uint64_t id);
  bool handle(Connection& connection, std::span<const std::byte> bytes, Received& received);
  bool handle_hello(Connection& connection, std::span<const std::byte> bytes, Received& received);
  bool by_cells(const Connection& connection) const;
  bool handle_offer(Connection& connection, std::span<const std::byte> bytes, Received& received);
  bool handle_datagram(std::span<const std::byte> bytes);
  bool handle_fault(Connection& connection, std::span<const std::byte> bytes);
  void greet(Connection& connection, std::uint32_t type);
  void send(Connection& connection, Message message);
  void flush(std::uint64_t id, Connection& connection);
  void drop(std::uint64_t id);

  const RendezvousOptions options_;
  std::mutex mutex_;
  UniqueFd epoll_, listener_;
  std::map<std::uint64_t, Connection> connections_;
  std::uint64_t next_id_ = 2;          // 0 is the listener, 1 the wake descriptor
  std::uint64_t accept_again_ns_ = 0;  // only poll_once uses it; 0: connections are accepted
  bool accept_failed_ = false;         // the last accept failed
  LogBudget lines_;
  std::uint64_t probe_ = 0;  // a peer tries to read it, to see whether it can read our memory
};

}  // namespace mesh::soft
