#include <mesh/channel.h>

#include "engine/data/progress_loop_datapath.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <utility>

namespace mesh {

namespace {

// Returns true if NCCL's thread, which has nothing to do, is to turn the loop.
[[gnu::always_inline]] inline bool is_callers_turn(Channel& channel) noexcept {
  return channel.callers_turn || channel.poller_is_late();
}

// Refuses a request because every slot is taken.
[[gnu::noinline]] Result<Request*> no_slot(Channel& channel) noexcept {
  if (is_callers_turn(channel)) channel.loop.try_turn(&channel);
  return Errc::WouldBlock;
}

// Returns why the channel takes no request: it has failed, its link is lazy, or it is of the other
// side.
[[gnu::cold, gnu::noinline]] Errc takes_none(const Channel& channel, engine::Side side) noexcept {
  if (channel.side != side) return Errc::InvalidArgument;
  // acquire: pairs with take_no_more(); what the control thread wrote about the end is visible.
  const Errc failure = channel.failure.load(std::memory_order_acquire);
  channel.link.tell_end(failure);
  if (failure != Errc::Ok) return failure;
  channel.link.reach().want_path();
  return Errc::WouldBlock;
}

// Submits a request to the loop, and returns it so that the caller need not keep it. Apart from
// start(), so that a request which waits for a test needs no frame.
template <typename Kind>
[[gnu::flatten, gnu::noinline]] Request* tell_loop(Kind& channel, Request& slot) noexcept {
  channel.loop.submit(channel, slot);
  return &slot;
}

template <typename Args>
[[gnu::always_inline]] inline bool is_in_region(const Args& args) noexcept {
  return (args.region != nullptr && args.region->covers(args.data, args.bytes)) || args.bytes == 0;
}

template <typename Args>
[[gnu::always_inline]] inline void fill(Request& slot, const Args& args) noexcept {
  DCHECK(slot.error == Errc::Ok);
  slot.address = reinterpret_cast<std::uint64_t>(args.data);
  slot.bytes = args.bytes;
  slot.tag = args.tag;
  slot.region = args.region;
}

template <typename Kind, typename Args>
[[gnu::always_inline]] inline Result<Request*> start(Kind& channel, const Args& args) noexcept {
  Request& slot = channel.next_slot();
  if (slot.state.load(std::memory_order_relaxed) != RequestState::Free) [[unlikely]]
    return no_slot(channel);
  if (!is_in_region(args)) [[unlikely]]
    return channel.refuse_range(args.data, args.bytes);
  fill(slot, args);
  if (channel.publish(slot)) return &slot;
  return tell_loop(channel, slot);
}

// Starts a send of another tag than the channel's first send. Channel::second, which says what the
// next request of the first tag may wait for, does not count it.
Result<Request*> start_beside(engine::SendChannel& channel, const SendArgs& args) noexcept {
  const Result<engine::TagQueue*> queue = channel.tag_queue(args.tag);
  if (!queue.ok()) return queue.code() == Errc::WouldBlock ? no_slot(channel) : queue.status();
  Request& slot = (*queue)->next_slot();
  if (slot.state.load(std::memory_order_relaxed) != RequestState::Free) return no_slot(channel);
  if (!is_in_region(args)) return channel.refuse_range(args.data, args.bytes);
  fill(slot, args);
  --channel.second;
  channel.tags.load(std::memory_order_relaxed)->publish(**queue, slot);
  channel.loop.submit_tagged(channel);
  return &slot;
}

struct Bytes {
  const void* data = nullptr;
  std::size_t count = 0;
};

// Starts the first send of all or one of another tag, or says why not. Its arguments come in
// registers: in one struct they would lie in memory for every send.
[[gnu::cold, gnu::noinline]] Result<Request*> send_otherwise(Channel& channel, Bytes bytes,
                                                             std::uint32_t tag,
                                                             Registration* region) noexcept {
  const SendArgs args{.data = bytes.data, .bytes = bytes.count, .tag = tag, .region = region};
  const bool takes =
      channel.side == engine::Side::Send &&
      channel.takes.load(std::memory_order_acquire) != engine::kTakesNothing;  // see takes_none()
  if (!takes) return takes_none(channel, engine::Side::Send);
  auto& sender = engine::SendChannel::of(channel);
  return channel.take_first_tag(args.tag) == args.tag ? start(sender, args)
                                                      : start_beside(sender, args);
}

}  // namespace

Result<Request*> isend(Channel& channel, const SendArgs& args) noexcept {
  if (channel.takes.load(std::memory_order_acquire) != args.tag)
      [[unlikely]]  // acquire: see takes_none()
    return send_otherwise(channel, {args.data, args.bytes}, args.tag, args.region);
  return start(engine::SendChannel::of(channel), args);
}

Result<Request*> irecv(Channel& channel, const RecvArgs& args) noexcept {
  if (channel.takes.load(std::memory_order_acquire) != engine::kTakesReceives) [[unlikely]]
    return takes_none(channel, engine::Side::Receive);
  return start(engine::RecvChannel::of(channel), args);
}

namespace {

[[gnu::always_inline]] inline RecvArgs member_of(const RecvGroup& group, std::size_t i) noexcept {
  return {.data = group.data[i],
          .bytes = group.bytes[i],
          .tag = static_cast<std::uint32_t>(group.tags[i]),
          .region = static_cast<Registration*>(group.regions[i])};
}

// Starts no member, because one has no slot or is not within its region. The first `taken` give
// back their slots.
[[gnu::cold, gnu::noinline]] Errc start_none(engine::RecvChannel& channel, const RecvGroup& group,
                                             std::size_t taken) noexcept {
  const std::uint64_t next = channel.submitted.load(std::memory_order_relaxed);
  const bool full =
      channel.request(next + taken).state.load(std::memory_order_relaxed) != RequestState::Free;
  for (std::size_t i = 0; i < taken; ++i) engine::ReceiveGroups::leave(channel.request(next + i));
  if (full) return Errc::WouldBlock;
  return channel.refuse_range(group.data[taken], group.bytes[taken]);
}

// Takes the slots of a group; the progress lock's holder writes its credits later.
[[gnu::noinline]] Errc take_slots(engine::RecvChannel& channel, const RecvGroup& group) noexcept {
  const std::uint64_t next = channel.submitted.load(std::memory_order_relaxed);
  for (std::size_t i = 0; i < group.count; ++i) {
    Request& slot = channel.request(next + i);
    const RecvArgs member = member_of(group, i);
    const bool free = slot.state.load(std::memory_order_relaxed) == RequestState::Free;
    if (!free || !is_in_region(member)) return start_none(channel, group, i);
    fill(slot, member);
    engine::ReceiveGroups::join(slot, i);
  }
  return Errc::Ok;
}

[[gnu::noinline]] Errc start_group_later(engine::RecvChannel& channel, const RecvGroup& group,
                                         bool held) noexcept {
  if (const Errc why = take_slots(channel, group); why != Errc::Ok) return why;
  channel.groups.form(channel.next_slot(), group.count);
  channel.asked = false;
  channel.submitted.store(channel.submitted.load(std::memory_order_relaxed) + group.count,
                          std::memory_order_release);  // as in publish()
  if (held) {
    channel.loop.visit_and_ring(channel);
  } else {
    channel.loop.leave_mail(channel);
  }
  return Errc::Ok;
}

[[gnu::flatten, gnu::noinline]] Result<Request*> start_group(engine::RecvChannel& channel,
                                                             const RecvGroup& group) noexcept {
  Request& first = channel.next_slot();
  Errc why = Errc::Ok;
  {
    const engine::ProgressLoop::Attempt attempt(channel.loop);
    if (attempt.held() && channel.post_group(group)) [[likely]]
      return &first;
    why = start_group_later(channel, group, attempt.held());
  }
  if (why == Errc::Ok) return &first;
  if (why == Errc::WouldBlock) return no_slot(channel);
  return why;
}

}  // namespace

Result<Request*> irecv_group(Channel& channel, const RecvGroup& members) noexcept {
  if (members.count == 1) return irecv(channel, member_of(members, 0));
  if (members.count - 1 >= kGroupMax) return Errc::InvalidArgument;
  if (channel.takes.load(std::memory_order_acquire) != engine::kTakesReceives)
    return takes_none(channel, engine::Side::Receive);
  return start_group(engine::RecvChannel::of(channel), members);
}

Result<Request*> irecv_group(Channel& channel, std::span<const RecvArgs> members) noexcept {
  if (members.size() > kGroupMax) return Errc::InvalidArgument;
  std::array<void*, kGroupMax> data{}, regions{};
  std::array<std::size_t, kGroupMax> bytes{};
  std::array<int, kGroupMax> tags{};
  for (std::size_t i = 0; i < members.size(); ++i) {
    data[i] = members[i].data;
    bytes[i] = members[i].bytes;
    tags[i] = static_cast<int>(members[i].tag);
    regions[i] = members[i].region;
  }
  return irecv_group(channel, RecvGroup{.count = members.size(),
                                        .data = data.data(),
                                        .bytes = bytes.data(),
                                        .tags = tags.data(),
                                        .regions = regions.data()});
}

namespace {

struct Answer {
  std::size_t bytes = 0;
  Errc code = Errc::WouldBlock;
};

// Returns the result of a flush. A dead device completes no read: then the end of the link ends the
// flush too, but not a peer that has closed in good order.
Errc flush_answer(Request& request) noexcept {
  engine::Flusher& flusher = *request.channel->loop.flusher;
  auto& flush = static_cast<engine::Flush&>(request);  // its state says so
  const Errc answer = flusher.finish(flush);
  if (answer != Errc::WouldBlock) [[likely]]
    return answer;
  const Errc why = request.channel->failure.load(std::memory_order_acquire);
  if (why == Errc::Ok || why == Errc::PeerClosed) [[likely]]
    return answer;
  flusher.abandon(flush);
  return why;
}

// Tests a request that is not Done: it is open, a flush, failed, tested before, or a group's.
[[gnu::noinline]] Errc answer_otherwise(Request& request, RequestState state) noexcept {
  if (state == RequestState::Submitted) return Errc::WouldBlock;
  if (state == RequestState::Flushing) return flush_answer(request);
  if (state != RequestState::Failed) return Errc::InvalidArgument;
  if (request.channel->is_group(request)) return Errc::InvalidArgument;
  // For NCCL the request ends here.
  ++request.channel->second;
  const Errc error = std::exchange(request.error, Errc::Ok);
  DCHECK(error != Errc::Ok);
  request.state.store(RequestState::Free, std::memory_order_relaxed);
  request.channel->link.tell_end(error);
  return error;
}

// The call that ends a request is the one that its message waits for.
[[gnu::always_inline]] inline Answer answer(Request& request, RequestState state) noexcept {
  if (state != RequestState::Done) [[unlikely]]
    return {.code = answer_otherwise(request, state)};
  ++request.channel->second;
  DCHECK(static_cast<std::int64_t>(request.channel->second - request.channel->submitted.load(
                                                                 std::memory_order_relaxed)) <= 1);
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
  if (state == RequestState::Submitted && is_callers_turn(channel)) {
    channel.loop.try_turn(&channel);
    state = request.state.load(std::memory_order_acquire);
  } else if (is_of_group(state)) [[unlikely]] {
    return Errc::InvalidArgument;  // told apart here, which costs a group less than below
  }
  const Answer given = answer(request, state);
  if (bytes != nullptr && given.code == Errc::Ok) *bytes = given.bytes;
  return given.code;
}

namespace {

template <typename Size>
[[gnu::always_inline]] inline Result<std::size_t> answer_group(Request& request,
                                                               std::span<Size> bytes) noexcept {
  Channel& channel = *request.channel;
  RequestState state = request.state.load(std::memory_order_acquire);
  if (state == RequestState::Group && is_callers_turn(channel)) {
    channel.asked = true;
    channel.loop.try_turn(&channel);
    state = request.state.load(std::memory_order_acquire);
  }
  if (state == RequestState::Group) return Errc::WouldBlock;
  Errc error = Errc::Ok;
  if (state != RequestState::Gathered) [[unlikely]] {
    if (state != RequestState::Failed || !channel.is_group(request)) return Errc::InvalidArgument;
    error = std::exchange(request.error, Errc::Ok);
    channel.link.tell_end(error);
    request.open_members = 0;
  }
  engine::ReceiveGroups& groups = engine::RecvChannel::of(channel).groups;
  const std::size_t count = groups.count_of(request);
  if (count == 0) return Errc::InvalidArgument;  // not the first one
  channel.second += count;
  groups.dissolve(request, bytes);
  if (error != Errc::Ok) [[unlikely]]
    return error;
  return count;
}

}  // namespace

Result<std::size_t> test_group(Request& request, std::span<std::size_t> bytes) noexcept {
  return answer_group(request, bytes);
}

Result<std::size_t> test_group(Request& request, std::span<int> bytes) noexcept {
  return answer_group(request, bytes);
}

}  // namespace mesh
