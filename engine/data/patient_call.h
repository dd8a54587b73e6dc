#pragma once
// A call to a device that the caller can do without: it waits for it only so long, and goes on
// while a thread of the device waits. While a device is late, nobody else waits for such a call to
// it. Thread: begin() and wait() on a thread that may wait for devices, the rest any. Bound:
// kSpareCallToLateNs from begin() on for wait().

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>

namespace mesh::engine {

class DeviceContext;

// The calls that a device is late with.
class LateCalls {
 public:
  bool any() const noexcept { return count_.load(std::memory_order_relaxed) != 0; }
  bool add() noexcept {  // returns true for the first
    return count_.fetch_add(1, std::memory_order_relaxed) == 0;
  }
  bool remove() noexcept {  // returns true for the last
    return count_.fetch_sub(1, std::memory_order_relaxed) == 1;
  }

  bool by_hand = false;  // an engine without threads: nobody could wait for a call

 private:
  std::atomic<std::uint32_t> count_{0};
};

class PatientCall {
 public:
  using Work = std::function<void()>;
  // Lines name the device and the command. `undo` is called after `work` if the call was abandoned
  // meanwhile.
  struct Of {
    DeviceContext& device;
    const char* command;
  };
  PatientCall(const Of& of, Work work, Work undo);

  // Has a thread of the device do the work. If there is none, or the device works by hand, it is
  // done before this returns.
  static std::shared_ptr<PatientCall> begin(const Of& of, Work work, Work undo);
  bool wait() noexcept;  // returns false if the device is late; the first such call logs it
  void wait_for_end() noexcept;
  bool over() const noexcept;  // after it the caller may use what `work` has left
  bool abandon() noexcept;     // returns false if it is over, so that the caller undoes it

 private:
  void run() noexcept;

  DeviceContext& device_;
  const char* const command_;
  const Work work_, undo_;
  const std::uint64_t began_ns_;
  mutable std::mutex mutex_;  // protects all below
  std::condition_variable ends_;
  bool over_ = false, abandoned_ = false, late_ = false;
};

}  // namespace mesh::engine
