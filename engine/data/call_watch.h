#pragma once
// The calls to one device that a bring-up waits for. A link waits up to kHandshakeStepToAnswerNs
// for them, so a call that lasts is told in a line, with the device and the command, and so is its
// end. Thread: Call on any, tell_late() control. Bound: one call for each thread of the engine.

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>

namespace mesh::engine {

class CallWatch {
 public:
  // Lives while its thread waits for the device.
  class Call {
   public:
    Call(CallWatch& watch, const std::string& device, const char* command) noexcept;
    ~Call();
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    friend CallWatch;
    CallWatch& watch_;
    const std::string& device_;
    const char* const command_;
    const std::uint64_t began_ns_;
    bool told_ = false;
    Call *next_ = nullptr, *before_ = nullptr;  // in the watch's list
  };

  // Tells of the oldest call if it is late and no other one that lasts was told.
  void tell_late() noexcept {
    if (any_.load(std::memory_order_relaxed)) look();
  }

 private:
  void look() noexcept;

  std::mutex mutex_;
  Call* newest_ = nullptr;
  std::atomic<bool> any_{false};
};

}  // namespace mesh::engine
