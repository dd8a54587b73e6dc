#pragma once
// One NCCL communicator as the engine sees it: its loop, registrations, links and listeners.
// Thread: loop by its progress lock, registrations by their mutex, everything else by the control
// mutex.

#include <mesh/engine.h>

#include "engine/data/progress_loop.h"
#include "engine/data/registration.h"
#include "engine/link/link.h"
#include "src/base/room.h"

#include <algorithm>
#include <cstddef>
#include <deque>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace mesh {

namespace engine {

// A list of those links of a context, or of their bring-ups, that the control thread looks at, in
// no order. Room for all is made before, so that adding one allocates nothing.
template <typename Item>
class ItemList {
 public:
  void reserve_for(std::size_t items) { make_room_for(all_, items); }
  void add(Item& item) noexcept { all_.push_back(&item); }
  void remove(const Item& item) noexcept {
    const auto found = std::find(all_.begin(), all_.end(), &item);
    if (found == all_.end()) return;
    *found = all_.back();
    all_.pop_back();
  }
  template <typename Drops>
  void drop_if(const Drops& drops) noexcept {
    std::erase_if(all_, [&drops](Item* item) { return drops(*item); });
  }
  // For loops by index: the list may grow meanwhile.
  std::size_t count() const noexcept { return all_.size(); }
  Item& operator[](std::size_t at) const noexcept { return *all_[at]; }
  std::span<Item* const> span() const noexcept { return all_; }

 private:
  std::vector<Item*> all_;
};
using LinkList = ItemList<Link>;

// The bring-ups of a context's links.
class BringUps {
 public:
  void add(BringUp& bring_up);               // it waits for a thread
  void started(BringUp& bring_up) noexcept;  // it has got its thread
  void remove(const BringUp& bring_up) noexcept;
  void touch_those_that_are_over() const noexcept;  // their links

  bool empty() const noexcept { return waiting_.count() + started_.count() == 0; }
  std::span<BringUp* const> waiting() const noexcept { return waiting_.span(); }
  std::span<BringUp* const> running() const noexcept { return started_.span(); }  // or over
  // Returns true after add() and remove(), until settle(): another one may get a thread.
  bool changed() const noexcept { return changed_; }
  void settle() noexcept { changed_ = false; }

 private:
  ItemList<BringUp> waiting_, started_;
  bool changed_ = false;
};

}  // namespace engine

class Listener {
 public:
  Context* context = nullptr;
  engine::Id128 nonce{};
  int rail = 0;
  std::deque<Channel*> arrived;  // channels that peers opened, not yet accepted
  // The newest link that names this listener in its HELLO and has not opened a channel to it. If
  // that link ends, its peer's connect has failed, and accept() fails too.
  const engine::Link* named_by = nullptr;
  Errc refused = Errc::Ok;  // why the peer's connect failed; accept() returns it once
  // Set if that link ended before its peer had to hear of it: the peer may name the listener again
  // until lost_until_ns. After that its connect has failed too, and accept() returns this error.
  Errc lost = Errc::Ok;
  std::uint64_t lost_until_ns = 0;

  void named(const engine::Link* by) noexcept {
    named_by = by;
    refused = lost = Errc::Ok;
  }
  // The error that accept() returns until a channel arrives.
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
  // Returns the link that carries connects with these wishes, or a link whose WELCOME will tell
  // which link does; null if there is neither.
  engine::Link* connector_to(const engine::Id128& peer_context,
                             const engine::AskedRails& asked) const;
  engine::Link& add_connector(const engine::Id128& peer_context,
                              const engine::AskedRails& asked = {});
  engine::Link& add_acceptor(const engine::Id128& link, const engine::Hello& hello);
  void reap_links();  // destroys links that are over

  // ---- Its listeners.
  Listener* listener(const engine::Id128& nonce) const noexcept;  // null if not open
  // Notes that the link names these listeners. If it ends before it opens a channel to one of them,
  // it has failed for that listener.
  void name_listeners(const engine::Link& link, std::span<const engine::Id128> nonces) noexcept;
  void unname_listeners(const engine::Link& link) noexcept;      // the connector will come again
  bool fail_named(const engine::Link& link, Errc why) noexcept;  // returns false if it names none
  // Fails the listeners that the link names, unless another link names them by that time.
  void lose_named(const engine::Link& link, Errc why, std::uint64_t until_ns) noexcept;

  // ---- Its end.
  void begin_close();         // tells everything to end; waits for nothing
  void take_down() noexcept;  // all links, so that nothing touches our memory any more
  bool may_go(std::uint64_t now_ns) const noexcept;  // returns true when lingering is over
  void cut_links();                                  // links that are left
  bool destroys() const noexcept;                    // a device still destroys a queue pair of it
  void wait_until_destroyed() noexcept;              // until no device does

  ContextOptions options;
  engine::Id128 id{};
  engine::ProgressLoop loop;
  std::unique_ptr<engine::RegistrationTable> registrations;
  std::vector<std::unique_ptr<Listener>> listeners;
  engine::LinkList restless;  // links that have something due
  engine::LinkList idle;      // all links without a channel, and perhaps others
  engine::BringUps rising;
  std::vector<std::unique_ptr<engine::Link>> links;
  bool closing = false;    // close_context was called; there are no new links
  bool lingering = false;  // close_context has returned; the control thread may destroy it
  // While lingering: until this time the peers may still send CLOSE and BYE.
  std::uint64_t linger_until_ns = 0;
  // A peer did not answer a REVOKE; until this time no other peer is waited for.
  std::uint64_t impatient_until_ns = 0;
  std::uint64_t turns_seen = 0;     // turns of the loop at the watch's last look
  std::uint64_t silence_turns = 0;  // turns of the loop at SilenceWatch's last look
  bool turned = true;               // the loop was turned between the watch's last two looks
  bool polled = false;              // a poller was asked to turn the loop

 private:
  template <typename Matches>
  engine::Link* usable_connector(const engine::Id128& peer_context, const Matches& matches) const;

  engine::LinkHost& host_;
};

}  // namespace mesh
