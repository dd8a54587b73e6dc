#pragma once
// The open device of a rail, and a protection domain on it. A card that is replaced takes its open
// device with it, and another one comes into the place. Whoever has a hold on the former one keeps
// it open: what was made on it must be destroyed first. Thread: any. Bound: one device, and the
// former ones that somebody still holds.

#include "src/verbs/handle.h"

#include <memory>
#include <mutex>
#include <utility>

namespace mesh::verbs {

class OpenDevice {
 public:
  // The last hold closes the device, which may take long.
  using Hold = std::shared_ptr<ibv_context>;

  OpenDevice() = default;
  explicit OpenDevice(ContextHandle device) { put(std::move(device)); }

  static Hold hold_of(ContextHandle device) {
    const auto owner = std::make_shared<ContextHandle>(std::move(device));
    return Hold(owner, owner->get());
  }
  Hold hold() const {
    if (shared_ == nullptr) return nullptr;
    const std::lock_guard guard(shared_->mutex);
    return shared_->device;
  }
  // For callers who know that nobody replaces the device meanwhile.
  ibv_context* get() const { return hold().get(); }
  explicit operator bool() const { return get() != nullptr; }

  // Puts another device into the place, and returns the former one.
  Hold replace(Hold next) {
    if (shared_ == nullptr) shared_ = std::make_unique<Shared>();
    const std::lock_guard guard(shared_->mutex);
    return std::exchange(shared_->device, std::move(next));
  }

 private:
  struct Shared {
    std::mutex mutex;
    Hold device;
  };
  void put(ContextHandle device) { static_cast<void>(replace(hold_of(std::move(device)))); }

  std::unique_ptr<Shared> shared_;
};

// A device and a protection domain on it. Each object that is made there holds the card, so that
// the domain is freed and the device is closed when the last of these objects is destroyed,
// whoever destroys it. That may take long.
struct Card {
  OpenDevice::Hold device;
  PdHandle pd;  // empty: the device has refused it
};

}  // namespace mesh::verbs
