#pragma once
// The links of all contexts of an engine: finds the one that is meant, tends them all, gives their
// bring-ups threads in turn, and makes room among those that carry no channel. Thread: control
// mutex. Bounds: kBringUpsMax threads; kHalfOpenMax acceptors' links without a channel, and
// kHalfOpenPerListenerMax of one listener.

#include "engine/control/control_plane.h"
#include "engine/control/frames.h"
#include "engine/control/relay_frames.h"
#include "engine/data/peer_link.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace mesh {
class Context;
}

namespace mesh::engine {

class Link;
class LinkHost;

class Links {
 public:
  using Contexts = std::vector<std::unique_ptr<Context>>;
  Links(LinkHost& host, const Contexts& contexts) : host_(host), contexts_(contexts) {}

  // ---- Finding one; null: there is none.
  Context* context_of(const Id128& id) const;
  Link* of_connection(ConnectionId id) const;
  Link* of_redial(ConnectionId id) const;
  // The newest of that name: a HELLO that is said again makes another link while the first may not
  // have noticed.
  Link* claimed(LinkRole role, const Id128& id, const LinkClaim& claim) const;
  Link& of_channel(const Channel& channel) const;  // there is one

  // The hosts at the other ends of those that are up and take part in relays; one may come twice.
  std::vector<WireHost> hosts() const;

  // ---- All of them.
  // Which of them a pass looks at. With many links, as a communicator of a thousand hosts has, most
  // passes are for one that has heard a frame, and a look at all of them would make connecting
  // quadratic. So all have their turn at intervals, and in between those that are touched, whose
  // bring-up has ended, or whose loop has met trouble.
  enum class Sweep : std::uint8_t { All, Restless };
  Sweep next_sweep(std::uint64_t due_ns) const;  // due_ns: the nearest of their deadlines
  bool tend(Sweep sweep = Sweep::All);           // true: soon again
  // A path over a port that is down is left at once: its peer, at the other end of the cable, does
  // the same, and what was under way goes over other paths without a single retry. A path over a
  // port that is up is tried at once.
  void on_rail_away(std::uint32_t rail, const std::string& cause);
  void on_port_up(std::uint32_t rail);
  // What speaks to the LID that a port had before reaches it no more: those paths are left and
  // opened again, which tells the peer the new one.
  void on_lid_change(std::uint32_t rail, std::uint16_t lid);

  // For one more acceptor's link, which names these listeners. False: there is no room, and none of
  // the others gives way yet.
  bool make_room(std::span<const Id128> named);

 private:
  template <typename Visit>
  void for_each(Visit&& visit) const;
  // Of all links that are up, each under its token.
  template <typename Act>
  void for_each_path_of(std::uint32_t rail, Act&& act);
  std::size_t count() const noexcept;
  std::uint64_t next_sweep_ns() const;
  template <typename Matches>
  Link* last_of(Matches&& matches) const;
  template <typename Key, typename Matches>
  Link* find(const Key& key, const Matches& matches) const;
  bool tend_context(Context& context, Sweep sweep) const;
  bool bring_ups_changed() const noexcept;
  void start_bring_ups();
  void send_away(Link& link, const std::string& why);

  LinkHost& host_;
  const Contexts& contexts_;
  std::uint64_t swept_ns_ = 0;  // when all were last tended
};

}  // namespace mesh::engine
