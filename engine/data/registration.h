#pragma once
// Registered memory: one entry per exact (address, bytes, type) and context, one MR per rail that
// uses it, both counted. An entry ends with its last user, so memory that is allocated later at the
// same address has another entry. Thread: keys of a live registration are read by the loop;
// everything else by any thread under the table's own mutex, which nobody holds while a device
// registers or deregisters: that may take seconds, and a lost path elsewhere needs the table.

#include <mesh/channel.h>
#include <mesh/config.h>
#include <mesh/policy.h>
#include <mesh/status.h>

#include "src/base/check.h"
#include "src/base/unique_fd.h"
#include "src/verbs/discovery.h"
#include "src/verbs/handle.h"

#include <infiniband/verbs.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <tuple>
#include <vector>

namespace mesh {

class alignas(64) Registration {
 public:
  struct Keys {
    std::uint32_t lkey = 0, rkey = 0;
  };
  // The keys of each rail. Those of a host with up to four rails lie in the object, in the line
  // that a message reads anyway.
  class RailKeys {
   public:
    RailKeys() = default;
    RailKeys(const RailKeys&) = delete;
    RailKeys& operator=(const RailKeys&) = delete;

    void resize(std::size_t rails) {  // once
      count_ = rails;
      if (rails <= near_.size()) return;
      far_ = std::make_unique<Keys[]>(rails);
      first_ = far_.get();
    }
    std::size_t size() const noexcept { return count_; }
    Keys& operator[](std::size_t rail) noexcept { return first_[rail]; }
    const Keys& operator[](std::size_t rail) const noexcept { return first_[rail]; }

   private:
    std::array<Keys, 4> near_{};
    Keys* first_ = near_.data();
    std::unique_ptr<Keys[]> far_;
    std::size_t count_ = 0;
  };

  bool covers(const void* data, std::size_t size) const noexcept {
    // If data lies before the region, this wraps and is huge.
    const std::uint64_t offset = reinterpret_cast<std::uint64_t>(data) - address;
    std::uint64_t end = 0;
    return !__builtin_add_overflow(offset, size, &end) && end <= bytes;
  }
  const Keys& keys(std::uint32_t rail) const noexcept {
    DCHECK(rail < keys_by_rail.size());
    return keys_by_rail[rail];
  }

  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  MemoryType type = MemoryType::Host;
  // Sends from here of up to this many bytes are copied into their work requests (inline). 0 for
  // memory that the CPU must not read. Changed under the loop's progress lock only.
  std::uint32_t inline_bytes = 0;
  std::uint32_t count = 0;  // register_memory calls not yet taken back, of all channels
  // Its size is fixed; a rail's entry is set before a link on that rail uses it.
  RailKeys keys_by_rail;
  std::vector<std::uint32_t> count_by_rail;  // register_memory calls that need the rail
  std::vector<verbs::MrHandle> mr_by_rail;
  std::uint32_t holds = 0;                  // see hold()
  std::vector<std::uint32_t> held_by_rail;  // how many of count_by_rail are holds
  std::vector<bool> busy_by_rail;           // a thread registers there, and others who need it wait
  // A duplicate of the DMA buffer's descriptor: the caller closes its own, and rails may need the
  // region later.
  UniqueFd buffer;
  verbs::DmaBufferRange buffer_range;
};

namespace engine {

class Flusher;
class DeviceContext;
class ProgressLoop;

// A copy of the rails of a link at one moment, without memory of the heap. A link has more rails
// than paths when its cables were moved.
class RailSet {
 public:
  explicit RailSet(std::span<const std::uint32_t> rails) : count_(rails.size()) {
    CHECK(count_ <= rails_.size());
    std::copy(rails.begin(), rails.end(), rails_.begin());
  }
  std::span<const std::uint32_t> span() const& noexcept { return std::span(rails_).first(count_); }
  std::span<const std::uint32_t> span() const&& = delete;  // a range-for would keep only the span
  // Returns the rails that are not in this set; both lists are in order.
  RailSet missing_of(std::span<const std::uint32_t> rails) const {
    RailSet missing(std::span<const std::uint32_t>{});
    for (const std::uint32_t rail : rails) {
      if (!std::binary_search(rails_.begin(), rails_.begin() + count_, rail))
        missing.rails_[missing.count_++] = rail;
    }
    return missing;
  }

 private:
  std::array<std::uint32_t, verbs::kRailsMax> rails_{};
  std::size_t count_;
};

class RegistrationTable {
 public:
  // NCCL_IB_PCI_RELAXED_ORDERING is for this memory only: credits, records and window words must be
  // written in order.
  RegistrationTable(std::vector<DeviceContext*> devices, const Settings& settings,
                    std::uint32_t inline_bytes);

  // Before the first registration. The flusher gets a queue pair on each rail with device memory.
  void flush_with(Flusher& flusher) noexcept { flusher_ = &flusher; }

  // Holding the progress lock. The loop's queue pairs take no more than this many bytes inline:
  // lowers the limit of all regions, because a message looks only there.
  void lower_inline_bytes(std::uint32_t inline_bytes) noexcept;

  // Registers on the rails named (indices of device contexts). Returns System if one refused;
  // logged with errno.
  Result<Registration*> acquire(const MemoryRange& range, std::span<const std::uint32_t> rails);
  // extend() puts memory on one rail more than when it was acquired, for this many uses of it;
  // retract() takes that back.
  Status extend(Registration& registration, std::uint32_t rail, std::uint32_t uses);
  void retract(Registration& registration, std::uint32_t rail, std::uint32_t uses) noexcept;
  // hold() keeps the entry, so that whoever extends it finds what prepare() has registered. It does
  // not count as a use: with the last use all is deregistered, and then prepare() does nothing.
  void hold(Registration& registration) noexcept;
  Status prepare(Registration& registration, std::uint32_t rail);
  // drop() deregisters what nobody else needs. leave() waits for no device: what nobody else needs
  // stays until the last use ends.
  void drop(Registration& registration, std::span<const std::uint32_t> rails) noexcept;
  void leave(Registration& registration, std::span<const std::uint32_t> rails) noexcept;
  // rest() takes so many uses of the rail back and waits for no device: what nobody else needs
  // there stays until the last use of the memory, so that whoever extends it again finds it.
  void rest(Registration& registration, std::uint32_t rail, std::uint32_t uses) noexcept;
  // Returns true if the device has the region, or its card has left and takes none.
  bool is_on(const Registration& registration, std::uint32_t rail) const;
  // Adds so many uses to a rail on which the region is. Waits for no device. WouldBlock: it is not
  // there.
  Status use(Registration& registration, std::uint32_t rail, std::uint32_t uses);
  // A card that has left keeps nothing: memory is used there without a key, and no path has it. On
  // the thread that works for the new card: registers all that is in use there again, and changes
  // its keys under the progress lock. Then it opens the device's gate. `former` gets the regions of
  // the former card. Returns System if the new one refused; logged.
  Status renew(std::uint32_t rail, ProgressLoop& loop, std::vector<verbs::MrHandle>* former);
  // Gives up one use on the rails named; MRs without users are deregistered before this returns.
  void release(Registration* registration, std::span<const std::uint32_t> rails) noexcept;
  void clear() noexcept;  // everything that is still registered is deregistered before it returns
  std::size_t size() const;

 private:
  using Key = std::tuple<std::uint64_t, std::uint64_t, MemoryType>;

  using Entries = std::map<Key, std::unique_ptr<Registration>>;
  using Lock = std::unique_lock<std::mutex>;

  std::unique_ptr<Registration> make_entry(const MemoryRange& range) const;
  verbs::MrHandle make_region(const Registration& entry,
                              DeviceContext& device) const;              // empty: see errno
  Status add_rail(Lock& lock, Registration& entry, std::uint32_t rail);  // unlocks meanwhile
  bool is_there(const Registration& entry, std::uint32_t rail) const noexcept;
  verbs::MrHandle make_there(const Registration& entry, std::uint32_t rail, int* error);
  Entries::iterator without_region(std::uint32_t rail) noexcept;
  Entries::iterator find(const Registration& registration) noexcept;
  // Deregisters what nobody uses any more without the lock, which it does not take again.
  void give_up(Lock& lock, Entries::iterator at, std::span<const std::uint32_t> rails) noexcept;
  bool is_busy(const Registration& entry) const noexcept;

  mutable std::mutex mutex_;
  std::condition_variable no_longer_busy_;
  std::vector<DeviceContext*> devices_;
  const int access_;
  Flusher* flusher_ = nullptr;
  std::uint32_t inline_bytes_;  // of host memory
  Entries entries_;
};

}  // namespace engine
}  // namespace mesh
