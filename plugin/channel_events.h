#pragma once
// The requests of one channel that have open events for NCCL's profiler (ChannelEvents), and all
// such channels of the process (AllEvents). Only the calls of plugin/calls_events.h use them, and
// only with a profiler. Thread: a channel's requests belong to its thread in NCCL, which may change
// at the end; AllEvents locks. Bound: the channel's open requests.

#include <mesh/engine.h>

#include "plugin/request_events.h"

#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

namespace mesh::plugin {

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
