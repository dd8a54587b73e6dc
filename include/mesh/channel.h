#pragma once
// The data path as the plugin calls it. A channel is one side of one NCCL comm; it carries requests
// in slots. Thread: isend, irecv, iflush, test of one channel come from one thread at a time
// ("NCCL", the progress thread); register_memory and deregister_memory may come from another at the
// same time (the service thread). Nothing here waits for another thread except deregister_memory
// and close (bounded, see there).

#include <mesh/status.h>

#include <cstddef>
#include <cstdint>

namespace mesh {

class Channel;       // send or receive side; owned by its context, valid until close()
class Request;       // one slot in use; valid until test() answers done or an error
class Registration;  // one registered region on every rail of the channel's link

enum class MemoryType : std::uint8_t { Host };

struct SendArgs {
  const void* data = nullptr;  // within region, may be null when bytes is 0
  std::size_t bytes = 0;       // up to 2^40
  std::uint32_t tag = 0;
  Registration* region = nullptr;  // may be null when bytes is 0
};

struct RecvArgs {
  void* data = nullptr;
  std::size_t bytes = 0;  // room; the send may be smaller
  std::uint32_t tag = 0;
  Registration* region = nullptr;
};

// Starts a request. WouldBlock: every slot is taken or the channel's ring is full, ask again with
// the same arguments. Any other error is final for the channel and was logged with peer and cause.
// Where callers turn the loop a request may wait to be posted until the next call on its own
// channel: ask about every open request from time to time, as NCCL's progress thread does.
Result<Request*> isend(Channel& channel, const SendArgs& args) noexcept;
Result<Request*> irecv(Channel& channel, const RecvArgs& args) noexcept;

// Ok: done, the request is dead, *bytes (if not null) is what was really sent. WouldBlock: not yet.
// Else: failed, dead.
Status test(Request& request, std::size_t* bytes) noexcept;
// The same without a turn of the loop, which most answers do not need; bytes is not null. False:
// not done, ask test().
bool test_done(Request& request, std::size_t* bytes) noexcept;

// Registers [data, data+bytes) on every rail of the channel's link; the same range again shares one
// entry by count.
Result<Registration*> register_memory(Channel& channel, void* data, std::size_t bytes,
                                      MemoryType type);

// When this returns nothing, local or remote, can touch the region through this channel. Waits at
// most 500 ms for the peer when live credits name the region, then fences the link. Null region:
// does nothing.
void deregister_memory(Channel& channel, Registration* region) noexcept;

// Requests still open die with it. Never waits for the peer longer than deregister_memory does.
// Null: does nothing.
void close(Channel* channel) noexcept;

}  // namespace mesh
