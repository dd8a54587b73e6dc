#pragma once
// How a lost control connection comes back while its link is up: the data path needs none. The
// connector dials again. The acceptor, which only sometimes notices a loss first, lets it come, and
// after a moment asks for it (SUMMON) on a connection of its own. When a connection is back, all
// frames that the peer has not handled are said again. Thread: control mutex. Bounds:
// NCCL_MESH_PATH_TIMEOUT in all; pauses between dials grow up to a second.

#include "engine/control/control_plane.h"
#include "engine/control/frames.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace mesh::engine {

class Link;

class Redial {
 public:
  explicit Redial(Link& link) : link_(link) {}

  // ---- Where the peer's control port is.
  void set_port(std::vector<SocketAddress> addresses, std::uint16_t port);
  void copy_port(const Redial& other) { addresses_ = other.addresses_, port_ = other.port_; }
  const std::vector<SocketAddress>& addresses() const noexcept { return addresses_; }
  std::uint16_t port() const noexcept { return port_; }
  ConnectionId dial_all() const;  // for a link that has had no connection yet
  // The address that carries the connection now goes first, and its refusal counts from here on.
  void note_address();

  // ---- The link's connection is lost. False: the link ends with it.
  bool begin(Errc reason, const std::string& text);
  bool tend();           // true: soon again
  void stop() noexcept;  // no connection is wanted any more, or there is one
  bool under_way() const noexcept { return under_way_; }

  // ---- The connection that is being dialed; 0: none.
  ConnectionId connection() const noexcept { return connection_; }
  void on_dialed();
  bool on_frame(const FrameHeader& header, std::span<const std::byte> bytes);
  void on_lost(Errc reason, const std::string& text);

  // ---- The peer has come by itself, with a claim on this link.
  LinkClaim claim() const;
  bool is_newer(const LinkClaim& theirs) const noexcept { return theirs.attempt > attempt_; }
  // Acceptor. False: it wants to go on behind frames that were never said.
  bool resume_on(ConnectionId connection, const FrameHeader& header, const LinkClaim& theirs);
  void on_summon(const LinkClaim& theirs);  // connector

 private:
  void set_connection(ConnectionId id) noexcept;
  void dial();
  bool met_another() const;
  void go_on(ConnectionId connection);
  std::string addresses_text() const;

  Link& link_;
  std::vector<SocketAddress> addresses_;  // of the peer's control port
  std::uint16_t port_ = 0;
  bool proven_ = false;  // the first address has carried a connection
  // Connector: how many connections were dialed so far. Acceptor: the number of the last one taken.
  std::uint32_t attempt_ = 0;

  // While there is no connection.
  bool under_way_ = false;
  ConnectionId connection_ = 0;    // being dialed
  std::uint64_t answered_ns_ = 0;  // when it came up and began to wait for the peer; 0: not yet
  std::uint32_t rounds_ = 0;
  std::uint64_t lost_ns_ = 0;
  std::uint64_t next_ns_ = 0;     // of the next dial
  std::uint64_t backoff_ns_ = 0;  // between that one and the one that follows
  std::uint64_t give_up_ns_ = 0;
};

}  // namespace mesh::engine
