#pragma once
// Opens the channels of one link, on both sides. A connector keeps the connects that wait for the
// link, chooses a channel index for each, sends OPEN and takes OPENED. An acceptor takes OPEN and
// leaves the channel with its listener. Thread: control mutex. Bounds: kChannelsMax channels, and
// kArrivedMax of them that one listener's accept() has not taken yet.

#include "engine/control/frames.h"

#include <cstddef>
#include <cstdint>

namespace mesh {
class Listener;
}

namespace mesh::engine {

class LinkCore;
struct PendingConnect;

class Openings {
 public:
  explicit Openings(LinkCore& link) : link_(link) {}

  // ---- Connects that wait for this link. A stage lives longer than its place there.
  void open(PendingConnect& stage);  // the link is up
  void open_all();                   // the link is up: READY has come
  void fail(PendingConnect& stage, Errc why) noexcept;
  void fail_all(Errc why) noexcept;
  void expire();

  // ---- Frames of the peer. Each returns false if the link must end.
  bool on(const Open& body);
  bool on(const Opened& body);
  bool on(const Decline& body);

 private:
  void open_at(PendingConnect& stage, std::uint32_t index);
  void decline(PendingConnect& stage, Errc why);
  void fail_for_memory(PendingConnect& stage) noexcept;
  bool answer(const Open& asked, Errc why);  // sends OPENED; returns true, since the link goes on
  bool welcome_channel(Listener& listener, const Open& asked);
  std::size_t peer_key_count() const noexcept;

  LinkCore& link_;
};

}  // namespace mesh::engine
