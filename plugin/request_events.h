#pragma once
// The events of NCCL's profiler that are open for one request. A send has one for each queue pair
// that carries a part of it, which begins when the part is posted. A receive has one for each of
// its members, which begins when the receive is started and names no queue pair, because the sender
// chooses it. All of them end with the request, before NCCL learns of its end, because NCCL then
// reuses the profiler's handle. Thread: the channel's in NCCL. Bound: kEventsMax.

#include <mesh/channel.h>
#include <mesh/posted.h>

#include "plugin/nccl/profiler.h"

#include <array>
#include <cstddef>
#include <cstdint>

namespace mesh::plugin {

class ChannelEvents;

// NCCL's example of a profiler has room for eight events of a request, and does not check for more.
// NCCL's own transport has no more either.
inline constexpr std::size_t kEventsMax = 8;
inline constexpr int kNoQueuePair = -1;

class RequestEvents {
 public:
  struct Begun {
    ChannelEvents* channel = nullptr;
    Request* request = nullptr;
    ncclProfilerCallback_t profiler = nullptr;
    void* phandle = nullptr;  // null for a receive
    std::size_t bytes = 0;
    int rail = 0;
  };
  void begin(const Begun& begun) noexcept;

  // Begins the event of a queue pair that carries a part of this send. The parts of one stripe are
  // one event; a stripe that goes out again over another queue pair ends the event of the lost one.
  void posted(const Posted& posted) noexcept;
  // Begins the event of one member of this receive.
  void add_member(void* phandle, std::size_t room) noexcept;

  // Ends all events. sizes: each member's bytes; null if the request failed or the channel ends.
  void end(const int* sizes) noexcept;

  Request* request() const noexcept { return begun_.request; }
  ChannelEvents& channel() const noexcept { return *begun_.channel; }
  std::size_t members() const noexcept { return is_send() ? 1 : count_; }
  bool is_send() const noexcept { return begun_.phandle != nullptr; }

 private:
  struct Event {
    void* handle = nullptr;
    std::uint32_t queue_pair = 0;
    std::uint64_t offset = 0;
    bool open = false;
  };
  using Descriptor = ncclProfilerNetIbDescr_v1_t;
  void start(Event& event, void* phandle, Descriptor& what) const noexcept;
  void stop(Event& event) const noexcept;
  void stop_with(Event& event, std::size_t bytes) const noexcept;
  Descriptor receive_of(std::size_t bytes) const noexcept;

  Begun begun_;
  std::array<Event, kEventsMax> events_;
  std::size_t count_ = 0;
};

}  // namespace mesh::plugin
