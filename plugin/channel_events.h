#pragma once
// The requests of one channel that have open events for NCCL's profiler (ChannelEvents), and all
// such channels of the process (AllEvents). Only the calls of plugin/calls_events.cc use them, and
// only with a profiler. Thread: a channel's requests belong to its thread in NCCL, which may change
// at the end; AllEvents locks. Bound: the channel's open requests.

#include <mesh/channel.h>
#include <mesh/engine.h>

#include "plugin/nccl/profiler.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

namespace mesh::plugin {

class ChannelEvents;

// NCCL's example of a profiler has room for eight events of a request, and does not check for more.
// NCCL's own transport has no more either.
inline constexpr std::size_t kEventsMax = 8;
inline constexpr int kNoQueuePair = -1;

// The events of NCCL's profiler that are open for one request. A send has one for each queue pair
// that carries a part of it, which begins when the part is posted. A receive has one for each of
// its members, which begins when the receive is started and names no queue pair, because the sender
// chooses it. All of them end with the request, before NCCL learns of its end, because NCCL then
// reuses the profiler's handle. Thread: the channel's in NCCL. Bound: kEventsMax.
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

class ChannelEvents {
 public:
  ChannelEvents(Channel& channel, ncclProfilerCallback_t profiler);
  ~ChannelEvents();  // stops the open events
  ChannelEvents(const ChannelEvents&) = delete;
  ChannelEvents& operator=(const ChannelEvents&) = delete;

  // Returns what NCCL gets instead of the request, and later passes to test().
  void* send_begun(Request& request, void* phandle, std::size_t bytes);
  struct Member {
    void* phandle = nullptr;
    std::size_t room = 0;
  };
  void* receive_begun(Request& request, std::span<const Member> members);

  // Returns true if a request of NCCL's stands for a RequestEvents of ours.
  static bool is_ours(const void* request) noexcept {
    return (reinterpret_cast<std::uintptr_t>(request) & kOurs) != 0;
  }
  static RequestEvents& of(void* request) noexcept {
    return *reinterpret_cast<RequestEvents*>(reinterpret_cast<std::uintptr_t>(request) - kOurs);
  }
  ncclResult_t test(RequestEvents& asked, int* done, int* bytes);

 private:
  // The mark in a pointer of ours: other requests are aligned, and NCCL looks into none of them.
  static constexpr std::uintptr_t kOurs = 1;
  static_assert(alignof(RequestEvents) > kOurs);
  RequestEvents& take(const RequestEvents::Begun& begun);
  void end(RequestEvents& ended, const int* sizes) noexcept;
  void see_posted();
  static void* as_request(RequestEvents& events) noexcept {
    return reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(&events) | kOurs);
  }

  const ncclProfilerCallback_t profiler_;
  const std::unique_ptr<PostedReader> reader_;
  std::deque<RequestEvents> all_;  // a deque: elements keep their addresses
  std::vector<RequestEvents*> open_, free_;
};

class AllEvents {
 public:
  static AllEvents& instance();  // never destroyed, like the registry

  // Sets the profiler of channels to come; null: no events. The caller knows that no comm is open.
  void set_profiler(ncclProfilerCallback_t profiler) noexcept;
  ChannelEvents& of(void* comm);  // makes the entry if there is none
  void drop(const void* comm) noexcept;
  void drop_all_of(const Context* context) noexcept;

 private:
  std::mutex mutex_;
  ncclProfilerCallback_t profiler_ = nullptr;
  std::unordered_map<const void*, std::unique_ptr<ChannelEvents>> channels_;
};

}  // namespace mesh::plugin
