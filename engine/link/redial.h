#pragma once
// Brings back a lost control connection while its link is up, which carries data without one. The
// connector dials again. An acceptor waits for it, and soon asks for it (SUMMON) on a connection of
// its own: sometimes only the acceptor notices a loss. When a connection is back, each side repeats
// all frames that its peer has not handled. Thread: control mutex. Bounds: NCCL_MESH_PATH_TIMEOUT
// in all; pauses between dials grow up to a second.

#include "engine/control/control_plane.h"
#include "engine/control/frames.h"
#include "src/base/socket.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace mesh::verbs {
struct Rail;
}

namespace mesh::engine {

class Link;

class Redial {
 public:
  explicit Redial(Link& link) : link_(link) {}

  // ---- The link's connection is lost. begin() returns false if the link ends with it.
  bool begin(Errc reason, const std::string& text);
  // Leaves a connection over which the peer does not answer, and dials the peer's other addresses
  // first. Does nothing if there are none.
  void try_other_way(const std::string& text);
  // Leaves a connection that runs over this rail's port, which is down.
  void on_port_away(const verbs::Rail& rail);
  bool tend();           // returns true if it must run again soon
  void stop() noexcept;  // no connection is needed any more, or there is one
  bool under_way() const noexcept { return under_way_; }

  // ---- The connection that is being dialed; 0 if there is none.
  ConnectionId connection() const noexcept { return connection_; }
  void on_dialed();
  bool on_frame(const FrameHeader& header, std::span<const std::byte> bytes);
  void on_lost(Errc reason, const std::string& text);

  // ---- The peer has come by itself, with a LinkClaim on this link.
  LinkClaim claim() const;
  bool is_newer(const LinkClaim& theirs) const noexcept { return theirs.attempt > attempt_; }
  // Acceptor. Returns false if the peer acknowledges frames that were never sent.
  bool resume_on(ConnectionId connection, const FrameHeader& header, const LinkClaim& theirs);
  void on_summon(const LinkClaim& theirs, ConnectionId caller);  // connector

 private:
  void set_connection(ConnectionId id) noexcept;
  void dial();
  bool carries(const SocketAddress& address) const;
  std::vector<SocketAddress> other_ways() const;
  void note_source(const SocketAddress& address);
  bool met_another() const;
  bool look_for_life();
  void go_on(ConnectionId connection);
  void go_on_without(const std::string& text);

  Link& link_;
  // Connector: connections dialed so far. Acceptor: the number of the last connection taken.
  std::uint32_t attempt_ = 0;

  // ---- Valid while there is no connection.
  bool under_way_ = false;
  ConnectionId connection_ = 0;    // being dialed
  std::uint64_t answered_ns_ = 0;  // since when it is up and waits for the peer; 0: not up yet
  std::uint32_t rounds_ = 0;
  std::uint64_t lost_ns_ = 0;
  std::uint64_t next_ns_ = 0;     // time of the next dial
  std::uint64_t backoff_ns_ = 0;  // between that dial and the one after it
  std::uint64_t give_up_ns_ = 0;
  std::vector<SocketAddress> ways_;   // if not empty, every second dial asks these addresses
  bool on_ways_ = false;              // the dial that is under way does
  bool told_of_life_ = false;         // a line says that the link goes on without a connection
  std::uint64_t ended_ = 0;           // requests that had ended when it was last asked
  std::uint64_t moved_ns_ = 0;        // when they were last seen not to wait for a fence
  std::vector<std::uint64_t> signs_;  // PathSet::signs_of_peer() when it was last asked
};

}  // namespace mesh::engine
