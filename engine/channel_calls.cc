#include <mesh/channel.h>

#include "engine/channel_base.h"
#include "engine/peer_link.h"
#include "engine/progress_loop.h"
#include "engine/registration.h"
#include "src/base/log.h"

namespace mesh {

namespace {

// The first refusal of a channel's life is worth a line; NCCL gives up after it.
Errc refuse_range(const Channel& channel, const void* data, std::size_t bytes) noexcept {
  LOG_WARN("channel {}: {} bytes at {} are not within the memory handle given", channel.index, bytes, data);
  return Errc::InvalidArgument;
}

template <typename Args>
Result<Request*> start(Channel& channel, const Args& args) noexcept {
  // acquire: pairs with fail_all(); what the control thread wrote about the end is visible.
  if (const Errc failure = channel.failure.load(std::memory_order_acquire); failure != Errc::Ok) return failure;
  Request* const slot = channel.take_slot();
  if (slot == nullptr) {
    if (channel.loop.callers_turn.load(std::memory_order_relaxed)) channel.loop.try_turn(&channel);
    return Errc::WouldBlock;
  }
  if (args.bytes != 0 && (args.region == nullptr || !args.region->covers(args.data, args.bytes))) {
    return refuse_range(channel, args.data, args.bytes);
  }
  slot->address = reinterpret_cast<std::uint64_t>(args.data);
  slot->bytes = args.bytes;
  slot->tag = args.tag;
  slot->region = args.region;
  channel.publish(*slot);
  channel.loop.submit(channel);
  return slot;
}

}  // namespace

Result<Request*> isend(Channel& channel, const SendArgs& args) noexcept { return start(channel, args); }

Result<Request*> irecv(Channel& channel, const RecvArgs& args) noexcept { return start(channel, args); }

Status test(Request& request, std::size_t* bytes) noexcept {
  // acquire: pairs with complete() and fail().
  RequestState state = request.state.load(std::memory_order_acquire);
  if (state == RequestState::Submitted) {
    engine::ProgressLoop& loop = request.channel->loop;
    if (!loop.callers_turn.load(std::memory_order_relaxed)) return Errc::WouldBlock;
    loop.try_turn(request.channel);
    state = request.state.load(std::memory_order_acquire);
  }
  switch (state) {
    case RequestState::Submitted: return Errc::WouldBlock;
    case RequestState::Done:
      if (bytes != nullptr) *bytes = request.bytes;
      request.state.store(RequestState::Free, std::memory_order_relaxed);
      return {};
    case RequestState::Failed: {
      const Errc error = request.error;
      request.state.store(RequestState::Free, std::memory_order_relaxed);
      return error;
    }
    case RequestState::Free: break;
  }
  return Errc::InvalidArgument;  // a request that was already answered
}

Result<Registration*> register_memory(Channel& channel, void* data, std::size_t bytes, MemoryType type) {
  return channel.link.owner().register_memory(channel, {.data = data, .bytes = bytes}, type);
}

void deregister_memory(Channel& channel, Registration* region) noexcept {
  if (region != nullptr) channel.link.owner().deregister_memory(channel, *region);
}

void close(Channel* channel) noexcept {
  if (channel != nullptr) channel->link.owner().close_channel(*channel);
}

bool is_send_channel(const Channel& channel) noexcept { return channel.side == engine::Side::Send; }

}  // namespace mesh
