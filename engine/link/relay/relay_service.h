#pragma once
// Carries paths of other hosts: owns the chains of which this process is the middle host. A host
// that shows our ticket may ask which hosts we know, and for chains, which end with the connection
// that asked for them. A host that finds no way is answered again when we find hosts. Each order
// has a thread for what takes long: making queue pairs, registering rings, resolving addresses and
// destroying all that. Thread: control mutex. Bounds: kCarriedMax orders, kCallersMax connections,
// NCCL_MESH_RELAY_BYTES of rings, relay::kChainsMax chains.

#include <mesh/snapshot.h>

#include "engine/control/control_plane.h"
#include "engine/control/relay_frames.h"
#include "engine/link/relay/carried.h"
#include "src/relay/middle.h"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace mesh::engine {

class LinkHost;

inline constexpr std::size_t kCarriedMax = 128;
inline constexpr std::size_t kCallersMax = 256;  // connections that have shown our ticket

class RelayService {
 public:
  using Peers = std::function<std::vector<WireHost>()>;
  RelayService(LinkHost& host, Peers peers);
  ~RelayService();

  // ---- The control plane's events about connections that others have dialed.
  bool owns(ConnectionId connection) const noexcept;
  // Also takes an unauthenticated connection's first frame. Returns false if the connection must be
  // dropped.
  bool on_frame(ConnectionId connection, const FrameHeader& header,
                std::span<const std::byte> body);
  void on_lost(ConnectionId connection) noexcept;

  void tend();
  void look_at_ports();  // cuts at once the chains over a port that is down
  std::uint32_t turn() noexcept { return middle_.turn(); }  // called if it has no thread
  bool carries() const noexcept { return !carried_.empty(); }
  // Returns true while chains that have ended are still being destroyed.
  bool destroys() const noexcept { return !ending_.empty(); }
  void close();  // takes no new orders any more
  void cut_all() noexcept;
  RelaySnapshot figures() const;

 private:
  struct Caller {  // a connection that has shown our ticket
    ConnectionId connection = 0;
    std::uint64_t looks_until_ns = 0;  // it hears of hosts that we find until then
    std::size_t told = 0;              // hosts in the last answer
  };
  void drop(ConnectionId connection) noexcept;
  bool on_ask(ConnectionId connection, const AskPeers& body);
  void tell_peers(Caller& caller);
  void tell_news();
  bool on_chain(ConnectionId connection, const Chain& body);
  bool on_join(ConnectionId connection, const Join& body);
  bool on_cut(ConnectionId connection, const Cut& body);
  WireHost self() const;
  bool shows_ticket(ConnectionId connection, const Id128& ticket);
  std::string why_not(const Chain& body) const;
  relay::RailShare* share_of(std::uint32_t rail);  // what all chains over the rail share
  bool start_thread();
  void make_waiting();
  void tend_one(Carried& carried);
  void end(Carried& carried, const std::string& why) noexcept;
  template <typename Body>
  void say(ConnectionId connection, const Body& body);

  LinkHost& host_;
  const Peers peers_;
  std::deque<relay::RailShare> shares_;  // by rail
  std::vector<Caller> callers_;
  relay::Middle middle_;
  bool started_ = false, closing_ = false;
  std::vector<std::unique_ptr<Carried>> carried_;
  // Orders that have ended, while a thread still runs a step of theirs or destroys their chains.
  // Nobody waits for it. Their memory still counts.
  std::vector<std::unique_ptr<Carried>> ending_;
  RelaySnapshot past_;  // figures of ended orders; its ways have the rows of all orders
};

}  // namespace mesh::engine
