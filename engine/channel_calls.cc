#include <mesh/channel.h>

#include "engine/turn.h"
#include "src/base/log.h"

#include <utility>

namespace mesh {

namespace {

// The first refusal of a channel's life is worth a line; NCCL gives up after it.
[[gnu::cold, gnu::noinline]] Errc refuse_range(const Channel& channel, const void* data, std::size_t bytes) noexcept {
  LOG_WARN("channel {}: {} bytes at {} are not within the memory handle given", channel.index, bytes, data);
  return Errc::InvalidArgument;
}

// Every slot is taken.
[[gnu::noinline]] Result<Request*> no_slot(Channel& channel) noexcept {
  if (channel.loop.callers_turn.load(std::memory_order_relaxed)) channel.loop.try_turn(&channel);
  return Errc::WouldBlock;
}

// Apart from start(), so that a request which waits for a test needs no frame.
template <typename Kind>
[[gnu::flatten, gnu::noinline]] Result<Request*> tell_loop(Kind& channel, Request& slot) noexcept {
  channel.loop.submit(channel, slot);
  return &slot;
}

template <typename Kind, typename Args>
[[gnu::always_inline]] inline Result<Request*> start(Kind& channel, const Args& args) noexcept {
  // acquire: pairs with fail_all(); what the control thread wrote about the end is visible.
  if (const Errc failure = channel.failure.load(std::memory_order_acquire); failure != Errc::Ok) [[unlikely]]
    return failure;
  Request& slot = channel.next_slot();
  if (slot.state.load(std::memory_order_relaxed) != RequestState::Free) [[unlikely]]
    return no_slot(channel);
  if (args.bytes != 0 && (args.region == nullptr || !args.region->covers(args.data, args.bytes))) [[unlikely]]
    return refuse_range(channel, args.data, args.bytes);
  slot.address = reinterpret_cast<std::uint64_t>(args.data);
  slot.bytes = args.bytes;
  slot.tag = args.tag;
  slot.region = args.region;
  if (channel.publish(slot)) return &slot;
  return tell_loop(channel, slot);
}

}  // namespace

Result<Request*> isend(Channel& channel, const SendArgs& args) noexcept {
  if (channel.side != engine::Side::Send) [[unlikely]]
    return Errc::InvalidArgument;
  return start(static_cast<engine::SendChannel&>(channel), args);
}

Result<Request*> irecv(Channel& channel, const RecvArgs& args) noexcept {
  if (channel.side != engine::Side::Receive) [[unlikely]]
    return Errc::InvalidArgument;
  return start(static_cast<engine::RecvChannel&>(channel), args);
}

namespace {

// NCCL is done with it.
Status answer_failed(Request& request) noexcept {
  ++request.channel->answered;
  const Errc error = std::exchange(request.error, Errc::Ok);
  request.state.store(RequestState::Free, std::memory_order_relaxed);
  return error;
}

[[gnu::always_inline]] inline Status answer(Request& request, RequestState state, std::size_t* bytes) noexcept {
  if (state == RequestState::Done) {
    ++request.channel->answered;
    if (bytes != nullptr) *bytes = request.bytes;
    request.state.store(RequestState::Free, std::memory_order_relaxed);
    return {};
  }
  if (state == RequestState::Submitted) return Errc::WouldBlock;
  return state == RequestState::Failed ? answer_failed(request) : Status{Errc::InvalidArgument};  // Free: it was already answered
}

// Apart from test(), so that asking about what is done needs no frame.
[[gnu::flatten, gnu::noinline]] Status turn_and_test(Request& request, std::size_t* bytes) noexcept {
  Channel& channel = *request.channel;
  channel.loop.try_turn(&channel);
  return answer(request, request.state.load(std::memory_order_acquire), bytes);
}

}  // namespace

Status test(Request& request, std::size_t* bytes) noexcept {
  // acquire, here and after a turn: pairs with complete() and fail().
  const RequestState state = request.state.load(std::memory_order_acquire);
  request.channel->asked = true;
  if (state == RequestState::Submitted && request.channel->loop.callers_turn.load(std::memory_order_relaxed)) {
    return turn_and_test(request, bytes);
  }
  return answer(request, state, bytes);
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
