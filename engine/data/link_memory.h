#pragma once
// The small registered memory of a link that the peer's NIC writes: the CTS FIFO (connector) or the
// records (acceptor) of every channel, and the connector's window words. A channel index has its
// own place for good, so an entry that comes late from an index's former life can only meet this
// index again, whose generations differ. Thread: control mutex; addresses are stable and read by
// the loop. Bound: kChannelsMax places; a page of them, then blocks of kChannelsPerBlock.

#include <mesh/policy.h>
#include <mesh/status.h>

#include "engine/data/patient_call.h"
#include "src/verbs/handle.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace mesh::engine {

class DeviceContext;

inline constexpr std::uint32_t kChannelsPerBlock = 32;  // at most
inline constexpr std::size_t kBlockBytesMax = 65536;    // unless one channel has more

// Keys of one piece of link memory: one for each path, in order. If the link has a path whose rails
// are named only when it is opened, one for each of our rails follows.
using LinkKeys = std::vector<std::uint32_t>;

struct PeerWritable {
  std::byte* memory = nullptr;
  LinkKeys rkeys{};
};

class LinkMemory {
 public:
  // A key, and whether the link can do without it: that of a rail which no path uses yet. Then
  // nobody waits for a device that is late.
  struct Key {
    DeviceContext* device = nullptr;
    bool spare = false;
  };
  // Sets the bytes per channel, a multiple of 64, and the keys in order.
  void configure(std::size_t bytes_per_channel, std::vector<Key> keys);
  // Returns true if the device has refused some of the link's memory, or is late with it: no path
  // may be opened on it.
  bool lacks(const DeviceContext& device) const noexcept;
  // Returns true if devices must register memory before a channel can have this index. They may
  // take long for it.
  bool waits_for_devices(std::uint32_t index) const noexcept;
  Result<PeerWritable> channel_memory(std::uint32_t index);  // zeroed when the index is new
  // Zeroed; once, and before any channel's memory: they lie behind that of the first channels.
  Result<PeerWritable> window_words(std::size_t bytes);
  void release() noexcept;  // deregisters all, once queue pairs that go to ERR are there

  // ---- Devices that were late (link_memory_late.cc). The caller has no thread at work here.
  bool has_late() const noexcept;
  bool is_late(const DeviceContext& device) const noexcept;
  // Takes what has been registered meanwhile. Returns the devices that lack nothing any more.
  std::vector<DeviceContext*> take_late();

  // ---- A new card in the place of one that has left (link_memory_renewal.cc).
  // Gives up the device's regions. Until all are there again no path may be opened on it.
  struct Former {
    std::shared_ptr<std::byte> memory;
    verbs::MrHandle mr;
  };
  void drop(const DeviceContext& device, std::vector<Former>* former);
  // A block without its region on the device. A thread registers it; nothing else of this memory is
  // touched meanwhile.
  struct Missing {
    std::size_t block = 0;
    std::shared_ptr<std::byte> memory;
    std::size_t bytes = 0;
    verbs::MrHandle made{};
  };
  std::vector<Missing> missing(const DeviceContext& device) const;
  static Status make(Missing& missing, DeviceContext& device);
  bool has(const Missing& missing) const noexcept {
    return missing.block < blocks_.size() && blocks_[missing.block] != nullptr &&
           blocks_[missing.block]->memory == missing.memory;
  }
  void take(Missing missing, DeviceContext& device);
  // The keys on the device: each is that of the channels from the first one on.
  struct KeyRun {
    std::uint32_t first = 0, rkey = 0;
  };
  std::vector<KeyRun> keys_on(const DeviceContext& device) const;
  const LinkKeys& first_keys() const noexcept { return blocks_.front()->rkeys; }  // of the first

 private:
  struct Position {
    std::size_t block = 0, channel = 0;  // the block's place, the channel's place in the block
  };
  struct Free {
    void operator()(std::byte* memory) const noexcept;
  };
  // A region that the device's thread may still register.
  struct Late {
    std::shared_ptr<verbs::MrHandle> mr;  // the thread's until the call is over
    std::shared_ptr<PatientCall> call;
  };
  // A block's region on a device. Without `mr` it is missing: the device has refused it, its card
  // has left, or it is late.
  struct Region {
    DeviceContext* device = nullptr;
    verbs::MrHandle mr{};
    std::unique_ptr<Late> late{};
  };
  struct Block {
    std::shared_ptr<std::byte> memory;
    std::size_t bytes = 0;
    std::vector<Region> regions;  // one for each device of the keys
    LinkKeys rkeys;
  };
  Position position_of(std::uint32_t index) const noexcept;
  std::size_t bytes_at(std::size_t block) const noexcept;
  // The devices without which a block may be made: at first those of spare keys only, then those
  // that lack memory already.
  using Spares = std::vector<const DeviceContext*>;
  Spares spares() const;
  Result<Block> make_block(std::size_t bytes, const Spares& spares) const;
  Status register_block(Block& block, const Spares& spares) const;
  static std::unique_ptr<Late> begin_late(const Block& block, DeviceContext& device);
  static verbs::MrHandle register_at(DeviceContext& device, void* memory, std::size_t bytes);
  void set_region(Block& block, Region& region, verbs::MrHandle mr) const;
  static Region* region_of(Block& block, const DeviceContext& device) noexcept;
  void put(std::size_t at, Block block);

 public:
  // Memory for more channels, which a thread has devices register while the link goes on. The link
  // memory outlives it.
  class Growth {
   public:
    // For a channel that waits for devices.
    Growth(const LinkMemory& memory, std::uint32_t index)
        : memory_(memory), at_(memory.position_of(index).block), spares_(memory.spares()) {}
    void run() noexcept;  // on any thread

   private:
    friend class LinkMemory;
    const LinkMemory& memory_;
    const std::size_t at_;
    const Spares spares_;
    Result<Block> made_{Errc::System};
  };
  Status take(Growth& growth);  // after run(), and before another one for this memory begins

 private:
  std::size_t bytes_per_channel_ = 0;
  std::uint32_t channels_at_first_ = 1;  // those of the first block, which is a page as a rule
  std::uint32_t channels_per_block_ = kChannelsPerBlock;
  std::vector<Key> keys_;
  std::vector<std::unique_ptr<Block>> blocks_;
};

}  // namespace mesh::engine
