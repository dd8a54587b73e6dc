#pragma once
// One communicator as the engine sees it: its loop, its registrations, its links and listeners.
// Thread: loop by its token, registrations by their mutex, everything else by the control mutex.

#include <mesh/engine.h>

#include "engine/data/progress_loop.h"
#include "engine/data/registration.h"
#include "engine/link/link.h"
#include "engine/link/link_lists.h"

#include <cstddef>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace mesh {

class Listener {
 public:
  Context* context = nullptr;
  engine::Id128 nonce{};
  int rail = 0;
  std::deque<Channel*> arrived;  // opened by a peer, not yet accepted
  // Of the links that name it in HELLO and have not opened a channel to it: the newest. If that
  // link ends, its peer's connect has failed, and so does accept().
  const engine::Link* named_by = nullptr;
  Errc refused = Errc::Ok;  // the verdict on the peer's connect, which accept() tells once
  // That link ended before the peer had to hear of it. The peer names the listener again at once,
  // or its connect has failed too, and this is the verdict from that time on.
  Errc lost = Errc::Ok;
  std::uint64_t lost_until_ns = 0;

  void named(const engine::Link* by) noexcept {
    named_by = by;
    refused = lost = Errc::Ok;
  }
  // What accept() answers while no channel has arrived.
  Errc verdict(std::uint64_t now_ns) noexcept {
    if (lost != Errc::Ok && now_ns >= lost_until_ns) refused = std::exchange(lost, Errc::Ok);
    return refused == Errc::Ok ? Errc::WouldBlock : std::exchange(refused, Errc::Ok);
  }
};

class Context {
 public:
  Context(const ContextOptions& options_of, engine::LinkHost& host)
      : options(options_of), loop(host.waker()), host_(host) {}

  // ---- Its links.
  // The link that carries what asks so, or that will tell which one does. Null: there is none.
  engine::Link* connector_to(const engine::Id128& peer_context,
                             const engine::AskedRails& asked) const;
  engine::Link& add_connector(const engine::Id128& peer_context,
                              const engine::AskedRails& asked = {});
  engine::Link& add_acceptor(const engine::Id128& link, const engine::Hello& hello);
  void reap_links();  // those that are over

  // ---- Its listeners.
  Listener* listener(const engine::Id128& nonce) const noexcept;  // null: it is not open
  // The link names these; where it ends before it has opened a channel, it has failed for them.
  void name_listeners(const engine::Link& link, std::span<const engine::Id128> nonces) noexcept;
  void unname_listeners(const engine::Link& link) noexcept;      // its connector comes again
  bool fail_named(const engine::Link& link, Errc why) noexcept;  // false: it names none
  // Those that are named by nobody else until then fail.
  void lose_named(const engine::Link& link, Errc why, std::uint64_t until_ns) noexcept;

  // ---- Its end.
  void begin_close();         // everything is told to end; nothing is waited for
  void take_down() noexcept;  // all links: nothing touches our memory any more
  bool may_go(std::uint64_t now_ns) const noexcept;  // lingering is over
  void cut_links();                                  // those that are left
  bool destroys() const noexcept;        // a device is still destroying a queue pair of it
  void wait_until_destroyed() noexcept;  // until none is

  ContextOptions options;
  engine::Id128 id{};
  engine::ProgressLoop loop;
  std::unique_ptr<engine::RegistrationTable> registrations;
  std::vector<std::unique_ptr<Listener>> listeners;
  engine::LinkList restless;  // something is due at them
  engine::LinkList idle;      // all that carry no channel, and perhaps others
  engine::RisingLinks rising;
  std::vector<std::unique_ptr<engine::Link>> links;
  bool closing = false;    // close_context was called; there are no new links
  bool lingering = false;  // close_context has returned; the control thread may destroy it
  // While lingering: the peers have so long for their CLOSE and BYE.
  std::uint64_t linger_until_ns = 0;
  // A peer did not answer a REVOKE; until this time no other peer is waited for.
  std::uint64_t impatient_until_ns = 0;
  std::uint64_t turns_seen = 0;  // turns of the loop at the watch's last look
  bool turned = true;            // the loop was turned between the watch's last two looks
  bool polled = false;           // a poller was asked to turn the loop

 private:
  template <typename Matches>
  engine::Link* usable_connector(const engine::Id128& peer_context, const Matches& matches) const;

  engine::LinkHost& host_;
};

}  // namespace mesh
