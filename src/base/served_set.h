#pragma once
// A set of objects that a thread serves in passes, and the back-off of that thread while its passes
// find nothing to do. Thread: add and remove under a mutex of the owner; pass and IdleBackOff on
// the serving thread. Bound: kPlaces objects; remove waits for the end of one pass.

#include "src/base/yielding.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace mesh {

template <typename Served, std::size_t kPlaces>
class ServedSet {
 public:
  // Returns false if there is no room. The object must live until remove() has returned.
  bool add(Served& served) noexcept {
    std::atomic<Served*>* const place = find(nullptr);
    if (place == nullptr) return false;
    place->store(&served, std::memory_order_release);
    const auto above = static_cast<std::size_t>(place - places_.data()) + 1;
    top_.store(std::max(top_.load(std::memory_order_relaxed), above), std::memory_order_release);
    size_.fetch_add(1, std::memory_order_relaxed);
    return true;
  }

  // Returns false if the object is not here. Afterwards no pass touches it.
  bool remove(const Served& served) noexcept {
    std::atomic<Served*>* const place = find(&served);
    if (place == nullptr) return false;
    // seq_cst, as in pass(): either the pass sees null, or we see that the pass runs and wait for
    // its end.
    place->store(nullptr, std::memory_order_seq_cst);
    size_.fetch_sub(1, std::memory_order_relaxed);
    const std::uint64_t seen = steps_.load(std::memory_order_seq_cst);
    Yielding end;
    while (seen % 2 == 1 && steps_.load(std::memory_order_seq_cst) == seen) end.wait();
    return true;
  }

  // Calls serve(object) for each object that is here.
  template <typename Serve>
  void pass(const Serve& serve) noexcept {
    steps_.fetch_add(1, std::memory_order_seq_cst);
    const std::size_t top = top_.load(std::memory_order_acquire);
    for (std::size_t i = 0; i < top; ++i) {
      Served* const served = places_[i].load(std::memory_order_seq_cst);
      if (served != nullptr) serve(*served);
    }
    steps_.fetch_add(1, std::memory_order_seq_cst);
  }

  std::size_t size() const noexcept { return size_.load(std::memory_order_relaxed); }
  std::uint64_t passes() const noexcept { return steps_.load(std::memory_order_relaxed) / 2; }

 private:
  std::atomic<Served*>* find(const Served* served) noexcept {
    const auto found = std::find_if(places_.begin(), places_.end(), [served](const auto& place) {
      return place.load(std::memory_order_relaxed) == served;
    });
    return found == places_.end() ? nullptr : &*found;
  }

  std::array<std::atomic<Served*>, kPlaces> places_{};  // null: free; released in add()
  std::atomic<std::size_t> top_{0};                     // no object was ever at or above it
  std::atomic<std::size_t> size_{0};
  std::atomic<std::uint64_t> steps_{0};  // even: between passes
};

// An empty pass takes some 50 ns, and a yield to nobody some 400 ns. One yield in 32 passes costs a
// thread on a core of its own little, and is enough for a caller that shares the thread's core: the
// caller waited 200 us for a message of 8 bytes when the first yield came after 2000 passes, and 7
// us with a yield every 32 passes (software fabric, two cores).
class IdleBackOff {
 public:
  enum class Act : std::uint8_t { Spin, Yield, Rest };

  static constexpr std::uint32_t kPassesBetweenYields = 32;
  static constexpr std::uint32_t kSpinPasses = 2000;  // about 100 us; then a yield after each pass

  explicit constexpr IdleBackOff(std::uint32_t yield_passes) noexcept
      : yield_passes_(yield_passes) {}

  // Begins anew, because the pass found work.
  void worked() noexcept { passes_ = 0; }
  // Returns what the thread is to do after one more pass that found nothing.
  Act next() noexcept {
    passes_ = std::min(passes_ + 1, yield_passes_);
    if (passes_ == yield_passes_) return Act::Rest;
    const bool spins = passes_ < kSpinPasses && passes_ % kPassesBetweenYields != 0;
    return spins ? Act::Spin : Act::Yield;
  }

 private:
  const std::uint32_t yield_passes_;
  std::uint32_t passes_ = 0;  // in a row that found nothing
};

}  // namespace mesh
