#pragma once
// A profiler of ours. It records the events that NCCL's callback would pass on to a profiler
// library, and the mistakes at which NCCL would crash. Thread: any; locks.

#include "plugin/nccl/profiler.h"
#include "tests/prelude.h"

namespace mesh::testkit {

class ProfilerRecorder {
 public:
  struct Event {
    void* phandle = nullptr;
    std::int64_t id = 0;
    ncclProfilerNetIbDescr_v1_t started{}, updated{};
    bool stopped = false;
  };

  // NOLINTNEXTLINE(readability-function-size): NCCL's signature
  static ncclResult_t callback(void** handle, int type, void* phandle, std::int64_t id,
                               void* what) {
    State& s = state();
    const std::lock_guard lock(s.mutex);
    const auto* const descriptor = static_cast<const ncclProfilerNetIbDescr_v1_t*>(what);
    if (type == ncclProfilerNetEventStart) {
      if (phandle == nullptr) s.mistakes += "a start without NCCL's handle\n";
      if (*handle != nullptr) s.mistakes += "a start with a handle that is in use\n";
      s.events.push_back({.phandle = phandle, .id = id, .started = *descriptor});
      *handle = reinterpret_cast<void*>(s.events.size());
      return ncclSuccess;
    }
    const auto number = reinterpret_cast<std::uintptr_t>(*handle);
    if (number == 0 || number > s.events.size() || s.events[number - 1].stopped) {
      s.mistakes += "event " + std::to_string(number) + " is not open\n";
      return ncclSuccess;
    }
    Event& event = s.events[number - 1];
    if (type != ncclProfilerNetEventStop) event.updated = *descriptor;
    if (type != ncclProfilerNetEventUpdate) event.stopped = true;
    return ncclSuccess;
  }
  // Acts as NCCL's callback when the profiler's mask leaves out network events.
  // NOLINTNEXTLINE(readability-function-size): NCCL's signature
  static ncclResult_t deaf_callback(void**, int type, void* phandle, std::int64_t, void*) {
    const std::lock_guard lock(state().mutex);
    if (type != ncclProfilerNetEventStart || phandle == nullptr)
      state().mistakes += "nothing was started\n";
    return ncclSuccess;
  }

  static void clear() {
    const std::lock_guard lock(state().mutex);
    state().events.clear();
    state().mistakes.clear();
  }
  static std::vector<Event> events() {
    const std::lock_guard lock(state().mutex);
    return state().events;
  }
  static std::size_t open_count() {
    std::size_t count = 0;
    for (const Event& event : events()) count += event.stopped ? 0 : 1;
    return count;
  }
  // Returns true if the handle has events and all of them have ended.
  static bool ended(const void* phandle) {
    const std::lock_guard lock(state().mutex);
    std::size_t found = 0, open = 0;
    for (const Event& event : state().events) {
      if (event.phandle != phandle) continue;
      ++found;
      open += event.stopped ? 0 : 1;
    }
    return found != 0 && open == 0;
  }
  static std::string mistakes() {
    const std::lock_guard lock(state().mutex);
    return state().mistakes;
  }

 private:
  struct State {
    std::mutex mutex;
    std::vector<Event> events;
    std::string mistakes;
  };
  static State& state() {
    static State* const only = new State;
    return *only;
  }
};

}  // namespace mesh::testkit
