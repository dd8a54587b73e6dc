#include <mesh/channel.h>

#include "engine/data/progress_loop_datapath.h"

#include <utility>

namespace mesh {

namespace {

// Every slot is taken.
[[gnu::noinline]] Result<Request*> no_slot(Channel& channel) noexcept {
  if (channel.callers_turn) channel.loop.try_turn(&channel);
  return Errc::WouldBlock;
}

// It has failed, is asleep, or is of the other side.
[[gnu::cold, gnu::noinline]] Errc takes_none(const Channel& channel, engine::Side side) noexcept {
  if (channel.side != side) return Errc::InvalidArgument;
  if (channel.link.dormant()) channel.link.tell_dormant();
  // acquire: pairs with take_no_more(); what the control thread wrote about the end is visible.
  const Errc failure = channel.failure.load(std::memory_order_acquire);
  if (failure != Errc::Ok) return failure;
  channel.link.want_path();
  return Errc::WouldBlock;
}

// Apart from start(), so that a request which waits for a test needs no frame. Answers its slot,
// which the caller need not keep.
template <typename Kind>
[[gnu::flatten, gnu::noinline]] Request* tell_loop(Kind& channel, Request& slot) noexcept {
  channel.loop.submit(channel, slot);
  return &slot;
}

template <typename Kind, typename Args>
[[gnu::always_inline]] inline Result<Request*> start(Kind& channel, const Args& args) noexcept {
  Request& slot = channel.next_slot();
  if (slot.state.load(std::memory_order_relaxed) != RequestState::Free) [[unlikely]]
    return no_slot(channel);
  if ((args.region == nullptr || !args.region->covers(args.data, args.bytes)) && args.bytes != 0)
      [[unlikely]]
    return channel.refuse_range(args.data, args.bytes);
  DCHECK(slot.error == Errc::Ok);
  DCHECK(!slot.begun);
  slot.address = reinterpret_cast<std::uint64_t>(args.data);
  slot.bytes = args.bytes;
  slot.tag = args.tag;
  slot.region = args.region;
  if (channel.publish(slot)) return &slot;
  return tell_loop(channel, slot);
}

}  // namespace

Result<Request*> isend(Channel& channel, const SendArgs& args) noexcept {
  if (channel.takes.load(std::memory_order_acquire) != engine::Takes::Sends)
      [[unlikely]]  // acquire: see takes_none()
    return takes_none(channel, engine::Side::Send);
  return start(engine::SendChannel::of(channel), args);
}

Result<Request*> irecv(Channel& channel, const RecvArgs& args) noexcept {
  if (channel.takes.load(std::memory_order_acquire) != engine::Takes::Receives) [[unlikely]]
    return takes_none(channel, engine::Side::Receive);
  return start(engine::RecvChannel::of(channel), args);
}

namespace {

struct Answer {
  std::size_t bytes = 0;
  Errc code = Errc::WouldBlock;
};

// Not done: still open, failed, or answered before.
[[gnu::noinline]] Errc answer_otherwise(Request& request, RequestState state) noexcept {
  if (state == RequestState::Submitted) return Errc::WouldBlock;
  if (state == RequestState::Flushing) return request.channel->loop.flusher->finish(request);
  if (state != RequestState::Failed) return Errc::InvalidArgument;
  // NCCL is done with it.
  ++request.channel->second;
  const Errc error = std::exchange(request.error, Errc::Ok);
  DCHECK(error != Errc::Ok);
  request.state.store(RequestState::Free, std::memory_order_relaxed);
  return error;
}

[[gnu::always_inline]] inline Answer answer(Request& request, RequestState state) noexcept {
  if (state != RequestState::Done) return {.code = answer_otherwise(request, state)};
  ++request.channel->second;
  DCHECK(request.channel->second <= request.channel->submitted.load(std::memory_order_relaxed) + 1);
  request.state.store(RequestState::Free, std::memory_order_relaxed);
  return {.bytes = request.bytes, .code = Errc::Ok};
}

}  // namespace

// acquire, here and below, also after a turn: pairs with complete() and fail().
bool test_done(Request& request, std::size_t* bytes) noexcept {
  if (request.state.load(std::memory_order_acquire) != RequestState::Done) return false;
  request.channel->asked = true;
  *bytes = answer(request, RequestState::Done).bytes;
  return true;
}

Status test(Request& request, std::size_t* bytes) noexcept {
  Channel& channel = *request.channel;
  channel.asked = true;
  RequestState state = request.state.load(std::memory_order_acquire);
  if (state == RequestState::Submitted && channel.callers_turn) {
    channel.loop.try_turn(&channel);
    state = request.state.load(std::memory_order_acquire);
  }
  const Answer given = answer(request, state);
  if (bytes != nullptr && given.code == Errc::Ok) *bytes = given.bytes;
  return given.code;
}

}  // namespace mesh
