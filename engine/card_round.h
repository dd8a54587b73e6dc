#pragma once
// The work for one communicator whose card was replaced: what it had on the former card is given
// up, and what is in use there is registered again on the new one. Thread: prepared and taken with
// the control mutex; run() on a thread that waits for the device. Bound: the registrations of the
// communicator.

#include "engine/data/device_context.h"
#include "engine/data/flusher.h"
#include "engine/data/link_memory.h"

#include <atomic>
#include <memory>
#include <optional>
#include <vector>

namespace mesh {
class Context;
}

namespace mesh::engine {

class CardRound {
 public:
  // The caller holds the control mutex, and all paths of the context over the device are fenced.
  CardRound(Context& context, DeviceContext& device, verbs::OpenDevice::Hold fresh);

  // Returns true if all of the communicator is on the new card.
  bool is_empty() const noexcept { return !first_ && blocks_.empty(); }
  void begin();  // before run(): takes from the loop what the former card had
  void run() noexcept;
  bool over() const noexcept { return over_.load(std::memory_order_acquire); }
  // When it is over: gives the links their memory. Returns false if the new card has refused.
  bool finish();

  Context& context() const noexcept { return context_; }
  DeviceContext& device() const noexcept { return device_; }

 private:
  Status make();
  void destroy_former() noexcept;

  Context& context_;
  DeviceContext& device_;
  verbs::OpenDevice::Hold fresh_;
  const bool first_;  // the device is made anew, too
  std::vector<LinkMemory::Missing> blocks_;
  // The former card's objects, which the thread destroys, the domain last.
  std::optional<DeviceContext::Remains> remains_;
  std::vector<LinkMemory::Former> link_regions_;
  std::vector<verbs::MrHandle> regions_;
  Flusher::Former flush_;
  Status status_{};
  std::atomic<bool> over_{false};  // released after all of it
};

}  // namespace mesh::engine
