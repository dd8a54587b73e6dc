#pragma once
// The data path as the plugin calls it. A channel is one side of one NCCL comm and carries requests
// in slots. Thread: isend, irecv and test of one channel come from one thread at a time ("NCCL",
// the progress thread); register_memory and deregister_memory may come from another at the same
// time (the service thread). Only deregister_memory and close wait for another thread. Bounds: the
// slots of a channel; the waits are at the calls.

#include <mesh/status.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace mesh {

class Channel;       // a send or receive side; its context owns it until close()
class Request;       // a slot in use; valid until test() answers done or an error
class Registration;  // a region that is registered on every rail of the channel's link

enum class MemoryType : std::uint8_t {
  Host,
  Device,  // a GPU's: only NICs reach it, and no byte of it is ever read or written here
};

struct MemoryRange {
  void* data = nullptr;
  std::size_t bytes = 0;
  MemoryType type = MemoryType::Host;
  // Device memory as the descriptor of a DMA buffer shows it, which the caller may close at once.
  // -1: by its address, where the kernel knows the GPU's memory (peer memory).
  int fd = -1;
  std::uint64_t offset = 0;  // of the first byte, in the buffer
};

struct SendArgs {
  const void* data = nullptr;  // lies within the region; may be null if bytes is 0
  std::size_t bytes = 0;       // up to 2^40
  std::uint32_t tag = 0;
  Registration* region = nullptr;  // may be null if bytes is 0
};

inline constexpr std::size_t kGroupMax = 8;  // receives that are started together

struct RecvArgs {
  void* data = nullptr;
  std::size_t bytes = 0;  // room; the send may be smaller
  std::uint32_t tag = 0;
  Registration* region = nullptr;
};

// The members of a group as NCCL names them: what each RecvArgs would say, in one array for each.
struct RecvGroup {
  std::size_t count = 0;
  void* const* data = nullptr;
  const std::size_t* bytes = nullptr;
  const int* tags = nullptr;
  void* const* regions = nullptr;  // each a Registration*
};

// They start a request. WouldBlock: every slot is taken; call again with the same arguments. A
// channel's first tag has the channel's slots, and each other tag of its sends has eight of its
// own, so that sends whose receives are late keep none from another tag. Any other error is final
// for the channel and was logged with peer and cause. Where callers turn the loop, a request may
// wait to be posted until the next call on its channel. So test every open request from time to
// time, as NCCL's progress thread does.
Result<Request*> isend(Channel& channel, const SendArgs& args) noexcept;
Result<Request*> irecv(Channel& channel, const RecvArgs& args) noexcept;
// A group: up to kGroupMax receives at once, or none of them. There is one request, which is done
// when every member has its message. A member meets the sends of its own tag, and no tag waits for
// another one. Each member has its own region.
Result<Request*> irecv_group(Channel& channel, const RecvGroup& members) noexcept;
Result<Request*> irecv_group(Channel& channel, std::span<const RecvArgs> members) noexcept;

// Ok: the request is done and dead, and *bytes (if not null) is what was really sent. WouldBlock:
// it is not done yet. Any other answer: it has failed and is dead.
Status test(Request& request, std::size_t* bytes) noexcept;
// The same without a turn of the loop, which most answers do not need. bytes must not be null.
// False: it is not done, or has failed; call test().
bool test_done(Request& request, std::size_t* bytes) noexcept;
// The same for the request of a group, of which test() says InvalidArgument. bytes: what each
// member received, in their order, as far as there is room. Answers the number of members.
Result<std::size_t> test_group(Request& request, std::span<std::size_t> bytes) noexcept;
// The same with sizes as NCCL has them. One that is too large for them is the largest int.
Result<std::size_t> test_group(Request& request, std::span<int> bytes) noexcept;

// What has arrived at the address, in device memory, is there for the device to read when the
// request is done, which test() says. Null: no flush is needed.
Result<Request*> flush(Channel& channel, const RecvArgs& args) noexcept;
// Is it in device memory?
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

// Requests that are still open die with the channel. Waits for the peer no longer than
// deregister_memory does. A null channel does nothing.
void close(Channel* channel) noexcept;

}  // namespace mesh
