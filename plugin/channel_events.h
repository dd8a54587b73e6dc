#pragma once
// A channel's requests with open events for NCCL's profiler, and all such channels of the process.
// Only the calls of plugin/calls_events.h come here; without a profiler nothing does. Thread: a
// channel's requests belong to its thread in NCCL, which may change at the end; all_events() locks.
// Bound: the channel's open requests.

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
  ~ChannelEvents();  // stops what is open
  ChannelEvents(const ChannelEvents&) = delete;
  ChannelEvents& operator=(const ChannelEvents&) = delete;

  // What NCCL gets in the place of the request, which is tested with test().
  void* send_begun(Request& request, void* phandle, std::size_t bytes);
  struct Member {
    void* phandle = nullptr;
    std::size_t room = 0;
  };
  void* receive_begun(Request& request, std::span<const Member> members);

  // Whether NCCL's request is one of ours.
  static bool is_ours(const void* request) noexcept {
    return (reinterpret_cast<std::uintptr_t>(request) & kOurs) != 0;
  }
  static RequestEvents& of(void* request) noexcept {
    return *reinterpret_cast<RequestEvents*>(reinterpret_cast<std::uintptr_t>(request) - kOurs);
  }
  ncclResult_t test(RequestEvents& asked, int* done, int* bytes);

 private:
  // NCCL's requests are pointers to aligned objects, and it never looks into them.
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
  std::deque<RequestEvents> all_;  // they keep their places
  std::vector<RequestEvents*> open_, free_;
};

class AllEvents {
 public:
  static AllEvents& instance();  // never destroyed, as the registry

  // From now on; null: no events. No comm is open.
  void set_profiler(ncclProfilerCallback_t profiler) noexcept;
  ChannelEvents& of(void* comm);  // made if need be
  void drop(const void* comm) noexcept;
  void drop_all_of(const Context* context) noexcept;

 private:
  std::mutex mutex_;
  ncclProfilerCallback_t profiler_ = nullptr;
  std::unordered_map<const void*, std::unique_ptr<ChannelEvents>> channels_;
};

}  // namespace mesh::plugin
