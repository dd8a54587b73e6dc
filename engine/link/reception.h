#pragma once
// Receives the control plane's events: finds the link of a connection, and hears peers whose
// connection belongs to no link yet (HELLO, RESUME, SUMMON, DECLINE). Thread: control mutex.
// Bounds: those of half_open.h for links that a HELLO makes; lines about unauthenticated
// connections have a budget.

#include <mesh/status.h>

#include "engine/control/control_plane.h"
#include "engine/control/frames.h"
#include "engine/control/handle.h"
#include "engine/link/links.h"

#include <cstddef>
#include <span>
#include <string>

namespace mesh::engine {

class LinkHost;

// A connection that belongs to no link, or no longer to one, and the link that its peer has named.
struct Caller {
  ConnectionId connection = 0;
  Id128 link{};
};
// Sends REFUSE with the reason, and closes the connection.
void refuse(LinkHost& host, const Caller& caller, const Refuse& why);

class Reception {
 public:
  Reception(LinkHost& host, Links& links) : host_(host), links_(links) {}

  // Tells the handle's listener, on a connection of its own, that its peer does not connect.
  void decline(const Handle& handle, const std::string& why);

  // As in ControlEvents. If there is no memory to handle an event, its link ends, and no other
  // link.
  void on_dialed(ConnectionId id);
  bool on_frame(ConnectionId id, const FrameHeader& header, std::span<const std::byte> body);
  void on_lost(ConnectionId id, Errc reason, const std::string& text);

 private:
  void hear_dialed(ConnectionId id);
  bool hear(ConnectionId id, const FrameHeader& header, std::span<const std::byte> body);
  void hear_lost(ConnectionId id, Errc reason, const std::string& text);
  void end_link_of(ConnectionId id, const char* what) noexcept;

  bool on_unauthenticated(ConnectionId id, const FrameHeader& header,
                          std::span<const std::byte> bytes);
  bool on_hello(const Caller& caller, const FrameHeader& header, const Hello& hello);
  bool on_resume(const Caller& caller, const FrameHeader& header, const Resume& body);
  bool on_summon(const Caller& caller, const Summon& body);
  bool on_decline(const Caller& caller, const Decline& body);
  void deny(const Caller& caller, const Link* link);
  void send_back(const Caller& caller, const Refuse& why);
  void turn_away(const Caller& caller);

  LinkHost& host_;
  Links& links_;
};

}  // namespace mesh::engine
