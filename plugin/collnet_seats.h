#pragma once
// The communicators and seats of CollNet that are open, because NCCL names them by their addresses,
// and may close one after the finalize that has closed it. Thread: any; locks, but for
// empty_seats(). Bound: one seat for each communicator and NIC.

#include "plugin/collnet_seat.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace mesh::plugin {

// Init of v11 and later returns one to NCCL.
struct CollNetCommunicator {
  std::uint64_t id = 0;
};

class CollNetSeats {
 public:
  static CollNetSeats& instance() {
    static auto* const only = new CollNetSeats;  // NCCL's threads may outlive static destructors
    return *only;
  }

  CollNetCommunicator* add(std::uint64_t id) {
    const std::lock_guard lock(mutex_);
    return communicators_
        .emplace_back(std::make_unique<CollNetCommunicator>(CollNetCommunicator{id}))
        .get();
  }
  void note_process() noexcept { process_ = true; }
  bool has(const std::uint64_t* id) noexcept {
    if (id == nullptr) return process_;
    const std::lock_guard lock(mutex_);
    return std::any_of(communicators_.begin(), communicators_.end(),
                       [id](const auto& each) { return each->id == *id; });
  }
  // Returns false if there is no such communicator. Its seats close without the lock.
  bool remove(const CollNetCommunicator* communicator) noexcept {
    std::list<Entry> ended;
    const std::lock_guard lock(mutex_);
    const auto found = std::find_if(communicators_.begin(), communicators_.end(),
                                    [&](const auto& each) { return each.get() == communicator; });
    if (found == communicators_.end()) return false;
    communicators_.erase(found);
    for (auto entry = seats_.begin(); entry != seats_.end();) {
      const auto each = entry++;
      if (each->owner == communicator) ended.splice(ended.end(), seats_, each);
    }
    for (const Entry& entry : ended) count_out(*entry.seat);
    return true;
  }

  void* add(const CollNetCommunicator* owner, std::unique_ptr<CollNetSeat> seat) {
    const std::lock_guard lock(mutex_);
    return seats_.emplace_back(Entry{owner, std::move(seat)}).seat.get();
  }
  // Returns null if it is not open.
  CollNetSeat* find(const void* comm) noexcept {
    const std::lock_guard lock(mutex_);
    const auto found = place_of(comm);
    return found == seats_.end() ? nullptr : found->seat.get();
  }
  std::unique_ptr<CollNetSeat> take(const void* comm) noexcept {
    const std::lock_guard lock(mutex_);
    const auto found = place_of(comm);
    if (found == seats_.end()) return nullptr;
    std::unique_ptr<CollNetSeat> seat = std::move(found->seat);
    seats_.erase(found);
    count_out(*seat);
    return seat;
  }

  void count_in(const CollNetSeat& seat) noexcept { empty_ += seat.group() == nullptr ? 1 : 0; }
  int empty_seats() const noexcept { return empty_; }

 private:
  struct Entry {
    const CollNetCommunicator* owner = nullptr;
    std::unique_ptr<CollNetSeat> seat;
  };
  std::list<Entry>::iterator place_of(const void* comm) noexcept {
    return std::find_if(seats_.begin(), seats_.end(),
                        [comm](const Entry& entry) { return entry.seat.get() == comm; });
  }
  void count_out(const CollNetSeat& seat) noexcept {
    empty_ -= seat.connected() && seat.group() == nullptr ? 1 : 0;
  }

  std::mutex mutex_;
  std::vector<std::unique_ptr<CollNetCommunicator>> communicators_;
  std::list<Entry> seats_;
  std::atomic<bool> process_{false};
  std::atomic<int> empty_{0};  // connected seats without a group
};

}  // namespace mesh::plugin
