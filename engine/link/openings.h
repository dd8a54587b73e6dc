#pragma once
// Opens the channels of one link, on both sides. A connector keeps the connects that wait for the
// link, chooses a channel index for each, sends OPEN and takes OPENED. An acceptor takes OPEN and
// leaves the channel with its listener. Thread: control mutex. Bounds: kChannelsMax channels, and
// kArrivedMax of them that one listener's accept() has not taken yet.

#include "engine/control/frames.h"
#include "engine/data/channel.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace mesh {
class Context;
class Listener;
}  // namespace mesh

namespace mesh::engine {

class Link;

enum class StageState : std::uint8_t { Waiting, Opening, Ready, Failed };

// One connect() under way.
struct PendingConnect {
  std::uint64_t check = 0;
  Context* context = nullptr;
  Link* link = nullptr;
  Id128 listener{};
  AskedRails asked{};
  bool named = false;  // HELLO named its listener
  StageState state = StageState::Waiting;
  Channel* channel = nullptr;
  std::uint64_t deadline_ns = 0;  // while Opening
  Errc error = Errc::Ok;
};

class Openings {
 public:
  explicit Openings(Link& link) : link_(link) {}

  // ---- Connects that wait for this link. A stage lives longer than its place here.
  void reserve_one() { waiting_.reserve(waiting_.size() + 1); }  // add() then allocates nothing
  void add(PendingConnect& stage);
  // Returns the listeners that HELLO names: of the first connects that ask for these rails.
  std::vector<Id128> name_listeners(const AskedRails& asked);
  const AskedRails& first_asked() const;  // of the first connect; one must wait
  // Returns the connects that another link's paths are for. The peer must be known.
  std::vector<PendingConnect*> those_of_other_paths() const;
  bool empty() const noexcept { return waiting_.empty(); }
  void open(PendingConnect& stage);  // the link is up
  void open_all();                   // the link is up: READY has come
  void fail(PendingConnect& stage, Errc why) noexcept;
  void fail_named(Errc why);  // the connects whose listeners HELLO has named
  void fail_all(Errc why) noexcept;
  // Let all connects, or one of them, wait for another link.
  void move_to(Link& other);
  void move_to(Link& other, PendingConnect& stage);
  void expire(std::uint64_t now_ns);

  // ---- Frames of the peer. Each returns false if the link must end.
  bool on(const Open& body);
  bool on(const Opened& body);
  bool on(const Decline& body);

  // Takes back the index of a connector's channel that is gone. Allocates nothing.
  void give_back(std::uint32_t index) noexcept;

 private:
  void open_at(PendingConnect& stage, std::uint32_t index);
  void decline(PendingConnect& stage, Errc why);
  void fail_for_memory(PendingConnect& stage) noexcept;
  bool answer(const Open& asked, Errc why);
  bool welcome_channel(Listener& listener, const Open& asked);

  Link& link_;
  std::vector<PendingConnect*> waiting_;
  std::vector<std::uint32_t> free_indices_;  // connector: indices that were used before
  std::vector<std::uint32_t> lives_;         // connector: how often each index was used
};

}  // namespace mesh::engine
