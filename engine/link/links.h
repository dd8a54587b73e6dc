#pragma once
// The links of all contexts of an engine: finds the link of a frame or a call, tends all links,
// gives their bring-ups threads in turn, and makes room among links that carry no channel. Thread:
// control mutex. Bounds: kBringUpsMax threads; kHalfOpenMax acceptors' links without a channel,
// kHalfOpenPerListenerMax of them for one listener.

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

  // ---- Finding one. Each returns null if there is none. A caller who gives the link something to
  // do touches it (LinkCore::touch).
  Context* context_of(const Id128& id) const;
  Link* of_connection(ConnectionId id) const;
  Link* of_redial(ConnectionId id) const;
  // Returns the newest link of that id: a repeated HELLO makes another link, while the first link
  // may not have noticed the loss.
  Link* claimed(LinkRole role, const Id128& id, const LinkClaim& claim) const;
  Link& of_channel(const Channel& channel) const;  // the link must exist

  // Returns the peers of links that are up, if they take part in relays; a host may come twice.
  std::vector<WireHost> hosts() const;

  // ---- All of them.
  // The links that a pass looks at. With many links, as in a communicator of a thousand hosts, most
  // passes are for one link that has heard a frame, and a look at all links would make connecting
  // quadratic. So a pass looks at all of them at intervals, and in between only at links that were
  // touched, whose bring-up has ended, or whose loop has met trouble.
  enum class Sweep : std::uint8_t { All, Restless };
  Sweep next_sweep(std::uint64_t due_ns) const;  // due_ns: the links' nearest deadline
  bool tend(Sweep sweep = Sweep::All);           // returns true if it must run again soon
  // on_rail_away() quarantines the paths of a rail at once. The peer at the other end of a pulled
  // cable does so too, and what was under way goes over other paths without a single retry.
  // on_port_up() tries the paths of a rail at once, and has the peers do so: its port is up, or has
  // another address. Both return true if a path of the rail is in use, and so tells what becomes of
  // it.
  bool on_rail_away(std::uint32_t rail, const std::string& cause);
  bool on_port_up(std::uint32_t rail);
  // The rail's card has left: nothing is made on devices that are gone, or on any with Leave::All,
  // until a new one is there. Quarantines paths that have come up on such a device.
  enum class Leave : std::uint8_t { All, Gone };
  void leave_card(std::uint32_t rail, const std::string& cause, Leave leave = Leave::Gone);
  // Finds out again where the cables to all peers lead, where addresses leave a doubt.
  void ask_cables();
  // Quarantines the paths whose queue pairs complete into this queue of the rail's device.
  void on_queue_failed(std::uint32_t rail, const ibv_cq* queue);
  // Packets to the former LID of a port no longer reach it: quarantines the paths that told it, and
  // opening them again tells the peer the new LID.
  void on_lid_change(std::uint32_t rail, std::uint16_t lid);
  // Fits the bytes in flight of the rail's paths to the speed that its port has now.
  void on_speed_change(std::uint32_t rail);

  // Makes room for one more acceptor's link, which names these listeners. Returns false if there is
  // none and no link gives way yet.
  bool make_room(std::span<const Id128> named);

 private:
  template <typename Visit>
  void for_each(Visit&& visit) const;
  // Visits the paths of all links that are up, holding each link's progress lock.
  template <typename Act>
  void for_each_path(Act&& act);
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
  std::uint64_t swept_ns_ = 0;  // when all links were last tended
};

}  // namespace mesh::engine
