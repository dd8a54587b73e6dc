#pragma once
// The data path as the plugin calls it. A channel is one side of one NCCL comm and carries requests
// in slots. Thread: isend, irecv and test of one channel come from one thread at a time ("NCCL",
// the progress thread); register_memory and deregister_memory may come from another thread at the
// same time (the service thread). Only deregister_memory and close wait for another thread. Bounds:
// the slots of a channel; each call says how long it may wait.

#include <mesh/status.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace mesh {

class Channel;       // a send or receive side; its context owns it until close()
class Request;       // a slot in use; valid until test() returns done or an error
class Registration;  // a region that is registered on every rail of the channel's link

enum class MemoryType : std::uint8_t {
  Host,
  Device,  // GPU memory: only NICs access it; no byte of it is ever read or written here
};

struct MemoryRange {
  void* data = nullptr;
  std::size_t bytes = 0;
  MemoryType type = MemoryType::Host;
  // Device memory: the descriptor of the DMA buffer that exports it; the caller may close it after
  // the call. -1: the memory is registered by address, which the kernel must support (peer memory).
  int fd = -1;
  std::uint64_t offset = 0;  // of the first byte, in the DMA buffer
};

struct SendArgs {
  const void* data = nullptr;  // lies within the region; may be null if bytes is 0
  std::size_t bytes = 0;       // up to 2^40
  std::uint32_t tag = 0;
  Registration* region = nullptr;  // may be null if bytes is 0
};

inline constexpr std::size_t kGroupMax = 8;  // most receives in one group

struct RecvArgs {
  void* data = nullptr;
  std::size_t bytes = 0;  // room; the send may be smaller
  std::uint32_t tag = 0;
  Registration* region = nullptr;
};

// The members of a group as NCCL passes them: one array for each field of RecvArgs.
struct RecvGroup {
  std::size_t count = 0;
  void* const* data = nullptr;
  const std::size_t* bytes = nullptr;
  const int* tags = nullptr;
  void* const* regions = nullptr;  // each a Registration*
};

// Each starts a request, or returns WouldBlock if every slot is taken; call again with equal
// arguments. The slots of a channel serve its first tag. Each other tag of its sends has eight
// slots of its own, so that sends whose receives are late take none from another tag. Any other
// error is final for the channel and was logged with peer and cause. Where callers turn the loop, a
// request may stay unposted until the next call on its channel, so test every open request from
// time to time, as NCCL's progress thread does.
Result<Request*> isend(Channel& channel, const SendArgs& args) noexcept;
Result<Request*> irecv(Channel& channel, const RecvArgs& args) noexcept;
// Starts a group of up to kGroupMax receives, all of them or none. The group has one request, which
// is done when every member has its message. A member meets only sends of its own tag, and no tag
// waits for another tag. Each member has its own region.
Result<Request*> irecv_group(Channel& channel, const RecvGroup& members) noexcept;
Result<Request*> irecv_group(Channel& channel, std::span<const RecvArgs> members) noexcept;

// Returns Ok if the request is done: it is dead, and *bytes (if not null) is the size really sent.
// Returns WouldBlock if it is not done yet. Any other status means that it has failed and is dead.
Status test(Request& request, std::size_t* bytes) noexcept;
// Ends a request that is done, as test() does, but without a turn of the loop, which is rarely
// needed. bytes must not be null. Returns false if the request is not done or has failed; then call
// test().
bool test_done(Request& request, std::size_t* bytes) noexcept;
// Does for the request of a group what test() does for others; test() itself returns
// InvalidArgument for it. bytes receives the size of each member's message, in the order of the
// members, as far as there is room. Returns the number of members.
Result<std::size_t> test_group(Request& request, std::span<std::size_t> bytes) noexcept;
// Overload for NCCL's type of sizes. A size that is too large for it becomes the largest int.
Result<std::size_t> test_group(Request& request, std::span<int> bytes) noexcept;

// Starts a flush of device memory. When its request is done, which test() tells, the device can
// read what had arrived at the address. Returns null if no flush is needed.
Result<Request*> flush(Channel& channel, const RecvArgs& args) noexcept;
// Returns true if the receive is into device memory.
bool needs_flush(const RecvArgs& args) noexcept;

// Registers [data, data+bytes) on every rail of the channel's link. Registering the same range
// again, with the same type, shares one counted entry.
Result<Registration*> register_memory(Channel& channel, const MemoryRange& range);
inline Result<Registration*> register_memory(Channel& channel, void* data, std::size_t bytes,
                                             MemoryType type) {
  return register_memory(channel, {.data = data, .bytes = bytes, .type = type});
}

// When this returns, nothing local or remote can touch the region through this channel. If live
// credits name the region, it waits at most 500 ms for the peer and then cuts the link. A null
// region does nothing.
void deregister_memory(Channel& channel, Registration* region) noexcept;

// Closes the channel; requests that are still open die with it. Waits for the peer no longer than
// deregister_memory does. A null channel does nothing.
void close(Channel* channel) noexcept;

// Returns true if no cable joins this host and the channel's peer, so that all paths lead over
// other hosts. It stays as it is for the life of the channel.
bool is_relayed(const Channel& channel) noexcept;

// A stripe of a message, or a part of one, that was posted to a queue pair.
struct Posted {
  const Request* request = nullptr;
  int rail = 0;                         // index in Engine::rails()
  std::uint32_t queue_pair = 0;         // its number on that rail
  std::uint64_t work_request = 0;       // number of work requests posted there before it
  std::uint64_t offset = 0, bytes = 0;  // of the whole stripe, in its message
};

// Tells a watcher which queue pairs carry a channel's sends. It reads what the queue pairs note for
// themselves, so that a channel without a watcher pays nothing. Thread: NCCL's of the channel;
// read() waits for the progress lock. Bound: the last sq_depth work requests of each queue pair; a
// watcher that asks too late misses the older ones.
class PostedReader {
 public:
  // Returns a reader of what is posted from now on. The channel outlives it. Throws bad_alloc.
  static std::unique_ptr<PostedReader> of(Channel& channel);
  virtual ~PostedReader() = default;

  // Fills `out` with what was posted since the last call, in the order of each queue pair, and
  // returns the number of entries. If `out` is full, call again for the rest. Throws bad_alloc.
  virtual std::size_t read(std::span<Posted> out) = 0;
  // Returns the rail of the best path now.
  virtual int rail() const = 0;
};

}  // namespace mesh
