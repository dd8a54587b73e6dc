#pragma once
// One side of a peer link as the control path sees it. It has the parts that do a link's work
// (Handshake, Openings, PathRepair, Widening, Recabling, Redial, Farewell), and what they share
// (link_core.h); it hands each frame to its part, and does what concerns several parts. No part
// calls another one. Its queue pairs belong to its PeerLink, which exists once both sides' rails
// are known. A link sees the engine only through LinkHost. Thread: control mutex; it takes the
// loop's progress lock where it touches what belongs to the loop. Bounds: those of its parts.

#include "engine/control/frames.h"
#include "engine/control/relay_frames.h"
#include "engine/data/path_silence.h"
#include "engine/data/stall_watch.h"
#include "engine/link/farewell.h"
#include "engine/link/handshake.h"
#include "engine/link/link_core.h"
#include "engine/link/openings.h"
#include "engine/link/path_repair.h"
#include "engine/link/recabling.h"
#include "engine/link/redial.h"
#include "engine/link/widening.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace mesh::engine {

// The state that watches keep of a link (request_watch.h, silence_watch.h, latency_watch.h).
struct LinkWatched {
  LinkWait wait;                                       // the wait that was reported
  std::uint64_t degraded_ns = 0, without_path_ns = 0;  // with a path not up; with no path up
  std::vector<PathSilence> silences;                   // by path; SilenceWatch keeps it
  bool timed = false;  // LatencyWatch has posted a timed write that has not completed
};

class Link final : public LinkCore {
 public:
  Link(LinkHost& host, Context& context, LinkIdentity identity);
  ~Link();

  bool on_frame(const FrameHeader& header, std::span<const std::byte> bytes);
  bool tend() noexcept;           // returns true if it must run again soon
  void start(BringUp& bring_up);  // called when a thread is free for it
  bool restless() const noexcept { return restless_; }
  bool leave_list() noexcept;  // leaves the list of restless links; returns false if it must stay
  bool leave_idle() noexcept;  // leaves the list of idle links; returns false if it must stay
  // Describes the peer's host, and our cables to it, to other hosts. Without a ticket it takes no
  // part in relays.
  WireHost peer_as_host() const;
  bool memory_rests(const DeviceContext& device) const noexcept;  // nothing is being registered
  void tell_card_keys(DeviceContext& device);  // the memory is on the new card of the device
  // Acceptor: tells the connector that a port is up, or has another address, if a lost path may use
  // it.
  void tell_port_up(std::uint32_t rail);
  // Opens the channel of a connect that waits here, or leaves that to READY.
  void open_when_up(PendingConnect& stage);

  // ---- The end.
  void take_down(Errc why) noexcept;               // allocates nothing
  void end(Errc why, const std::string& text);     // the peer or the way to it is lost
  void end_for_memory(const char* what) noexcept;  // for want of memory
  void begin_close();  // closes all channels and the link in good order; waits for nothing
  bool may_be_forgotten() const noexcept;
  void cut();  // ends link and channels at once; waits for the try of a bring-up that is under way

  // ---- What a part asks of others.
  void distrust_connection(const std::string& text) { redial_.try_other_way(text); }
  void ask_cables() noexcept { recabling_.ask_soon(); }  // where they lead, if there is a doubt
  void set_peer_link(std::unique_ptr<PeerLink> made);    // it has all its paths
  // Queue pairs are made or go to RTS, those of the link or of one path that is opened again. A
  // link that is taken down meanwhile ends when its bring-up does.
  void begin_bring_up(BringUp::Order order);
  void close_channel(Channel& channel) { farewell_.begin_close(channel); }
  // Takes the paths that could not be brought up out of use until they can be opened.
  void leave_out(const std::vector<std::uint8_t>& down) { repair_.leave_out(down); }
  void open_channels();                   // connector: the link is up, and measured
  void distribute_connects();             // connector: the peer's rails have become known
  void dial_anew(const Redialing& anew);  // ends the link; another one dials

  // ---- Its parts.
  Handshake& handshake() noexcept { return handshake_; }
  PathRepair& repair() noexcept { return repair_; }
  Openings& openings() noexcept { return openings_; }
  Redial& redial() noexcept { return redial_; }
  Farewell& farewell() noexcept { return farewell_; }
  const Handshake& handshake() const noexcept { return handshake_; }
  const Openings& openings() const noexcept { return openings_; }
  const Redial& redial() const noexcept { return redial_; }

  LinkWatched watched;

 private:
  // Each of these three frames goes to two parts.
  bool on(const Open& body);
  bool on(const Close& body);
  bool on(const CardKeys& body);

  bool dispatch(const FrameHeader& header, std::span<const std::byte> bytes);
  bool may_come(const FrameKind& kind) const noexcept;
  template <typename Body>
  bool hand_over(const Body& body);
  Link& add_sibling(const AskedRails& asked) const;
  std::string end_words(Errc why) const;
  bool tend_parts();
  void tend_late_memory();
  bool at_rest() const noexcept;
  void finish_bring_ups();
  void finish(BringUp& done);
  bool is_reopened(const Path& path) const noexcept;  // by a bring-up
  template <typename Matches>
  void drop_bring_ups(const Matches& matches) noexcept;
  void end_queue_pairs() noexcept;  // of paths that do not rise; the caller holds the progress lock

  Handshake handshake_{*this};
  PathRepair repair_{*this};
  Openings openings_{*this};
  Redial redial_{*this};
  Farewell farewell_{*this};
  Widening widening_{*this};
  Recabling recabling_{*this};
};

}  // namespace mesh::engine
