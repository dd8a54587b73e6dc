#pragma once
// The calls to one device that a bring-up waits for. A link waits up to kHandshakeStepToAnswerNs
// for them, so a call that lasts is told in a line, with the device and the command, and so is its
// end. Thread: Call and oldest() on any, tell_late() control. Bound: one call for each thread of
// the engine.

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

  // Returns the command of the oldest call and its time; empty if there is none.
  std::string oldest() const;

 private:
  void look() noexcept;

  mutable std::mutex mutex_;
  Call* newest_ = nullptr;
  std::atomic<bool> any_{false};
};

}  // namespace mesh::engine
