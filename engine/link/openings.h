#pragma once
// Opens the channels of one link, on both sides. A connector keeps the connects that wait for the
// link, chooses a channel index for each, sends OPEN and takes OPENED. An acceptor takes OPEN and
// leaves the channel with its listener. Where devices must register memory first, a thread waits
// for them, and channels open in their order afterwards. Thread: control mutex; the destructor
// waits for that thread. Bounds: kChannelsMax channels, and kArrivedMax of them that one listener's
// accept() has not taken yet.

#include "engine/control/frames.h"

#include "engine/data/link_memory.h"
#include "src/base/thread_pool.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace mesh {
class Listener;
}

namespace mesh::engine {

class Link;
struct Path;
struct PendingConnect;

class Openings {
 public:
  explicit Openings(Link& link) : link_(link) {}

  // ---- Connects that wait for this link. A stage lives longer than its place there.
  void open(PendingConnect& stage);  // the link is up
  void open_all();                   // the link is up: READY has come
  void fail(PendingConnect& stage, Errc why) noexcept;
  void fail_all(Errc why) noexcept;
  void tend();
  bool growing() const noexcept { return growth_ != nullptr; }  // a thread waits for devices
  void end_growth();                                            // waits for that thread

  // ---- Frames of the peer. Each returns false if the link must end.
  bool on(const Open& body);
  bool on(const CardKeys& body);
  bool on(const Opened& body);
  bool on(const Decline& body);
  // The peer gives a channel up. Returns true if it is not open yet, and is refused.
  bool withdraw(std::uint32_t channel);

 private:
  struct Growth {
    Growth(LinkMemory& memory, std::uint32_t index) : of_memory(memory, index) {}
    ~Growth() { task.wait(); }
    LinkMemory::Growth of_memory;
    std::uint64_t until_ns = 0;
    std::atomic<bool> over{false};  // released after what of_memory has done
    ThreadPool::Task task;
  };
  void grow(std::uint32_t index);
  void finish_growth();
  void give_up_growth();
  void expire();
  bool refuses(const Open& asked);
  void open_held(const Status& memory);
  void refuse_for(Listener& listener, const Open& asked, Errc why);
  bool waits_for_devices(std::uint32_t index) const noexcept;
  Result<PeerWritable> memory_for(std::uint32_t index);
  Status open_at(PendingConnect& stage, std::uint32_t index);
  void decline(PendingConnect& stage, Errc why) noexcept;
  bool answer(const Open& asked, Errc why);  // sends OPENED; returns true, since the link goes on
  void welcome_channel(const Open& asked);
  std::size_t peer_key_count() const noexcept;
  const Path* find_in_use(std::uint32_t peer_rail) const;

  Link& link_;
  std::unique_ptr<Growth> growth_;
  std::vector<Open> held_;  // acceptor: opened when the growth is over, in their order
};

}  // namespace mesh::engine
