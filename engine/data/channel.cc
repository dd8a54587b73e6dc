#include "engine/data/channel.h"

#include "engine/data/peer_link.h"
#include "engine/data/progress_loop.h"
#include "src/base/check.h"
#include "src/base/log.h"

#include <algorithm>
#include <bit>
#include <exception>
#include <utility>

namespace mesh {

namespace {
// Marks a sequence of oldest_open() as the number of a send in another tag's queue.
constexpr std::uint64_t kOfQueue = std::uint64_t{1} << 63;
constexpr std::uint32_t kQueueShift = 48;
std::uint32_t queue_of(std::uint64_t sequence) {
  return static_cast<std::uint32_t>((sequence - kOfQueue) >> kQueueShift);
}
// Calls between two looks at the poller's turns: over 100 ns if NCCL does nothing else, and some 10
// us if it yields after each. A poller of one loop makes a turn in that time, and no harm is done
// if it does not. A power of two, so that the count may begin anew.
constexpr std::uint8_t kTestsToLook = 32;
}  // namespace

Channel::Channel(engine::PeerLink& link_of, engine::Side side_of, std::uint32_t index_of)
    : side(side_of),
      index(index_of),
      link(link_of),
      slot_count(link_of.policy().slots),
      loop(link_of.loop()),
      requests(std::make_unique<Request[]>(slot_count)),
      slot_mask(slot_count - 1),
      callers_turn(!loop.has_poller()),
      batch(loop.has_poller() ? 1 : link_of.policy().batch),
      takes(side_of == engine::Side::Send ? engine::kTakesAnySend : engine::kTakesReceives) {
  DCHECK(std::has_single_bit(slot_count) && slot_count <= kSlotsMax);
  DCHECK(index < kChannelsMax);
  DCHECK(batch != 0);
  for (std::uint32_t slot = 0; slot < slot_count; ++slot) requests[slot].channel = this;
}

Channel::~Channel() { delete tags.load(std::memory_order_acquire); }

// The control thread may store kTakesNothing meanwhile, and wake() puts first_tag back.
std::uint64_t Channel::take_first_tag(std::uint32_t tag) noexcept {
  if (first_tag.load(std::memory_order_relaxed) == engine::kTakesAnySend)
    first_tag.store(tag, std::memory_order_release);
  const std::uint64_t first = first_tag.load(std::memory_order_relaxed);
  std::uint64_t expected = engine::kTakesAnySend;
  takes.compare_exchange_strong(expected, first, std::memory_order_release,
                                std::memory_order_relaxed);
  return first;
}

Result<engine::TagQueue*> Channel::tag_queue(std::uint32_t tag) noexcept {
  try {
    if (tags.load(std::memory_order_relaxed) == nullptr)
      tags.store(std::make_unique<engine::TagQueues>(*this).release(), std::memory_order_release);
    engine::TagQueue* const queue = tags.load(std::memory_order_relaxed)->of(tag);
    if (queue == nullptr) return Errc::WouldBlock;
    return queue;
  } catch (const std::exception& error) {
    LOG_WARN("channel {}: cannot allocate the queue for sends of tag {}: {}", index, tag,
             error.what());
    return Errc::System;
  }
}

Errc Channel::refuse_range(const void* data, std::size_t bytes) const noexcept {
  LOG_WARN("channel {}: {} bytes at {} are not within the memory handle given", index, bytes, data);
  return Errc::InvalidArgument;
}

// A slot that is used again during the look passes for its former request; the next look finds that
// number gone.
engine::OpenRequest Channel::oldest_open(std::uint64_t from) const noexcept {
  if (is_of_queue(from)) return oldest_of_queue(queue_of(from));
  const std::uint64_t limit = submitted.load(std::memory_order_acquire);  // pairs with publish()
  const std::uint64_t least = limit > slot_count ? limit - slot_count : 0;
  DCHECK(from <= limit);
  for (std::uint64_t sequence = std::max(from, least); sequence < limit; ++sequence) {
    if (is_open(request(sequence).state.load(std::memory_order_acquire))) return {sequence, true};
  }
  return {limit, false};
}

engine::OpenRequest Channel::oldest_of_queue(std::uint32_t queue) const noexcept {
  engine::OpenRequest found = tags.load(std::memory_order_acquire)->at(queue).oldest_open();
  found.sequence += kOfQueue + (std::uint64_t{queue} << kQueueShift);
  return found;
}

// The sends of different tags end independently of one another, so each tag has an oldest one.
void Channel::see_open(std::uint64_t now_ns) noexcept {
  engine::TagQueues* const tagged = tags.load(std::memory_order_acquire);
  if (tagged == nullptr) return oldest.see(oldest_open(oldest.sequence()), now_ns);
  engine::OldestRequest& first = tagged->oldest_of_first;
  if (first.sequence() == 0 && !first.open() && !is_of_queue(oldest.sequence()))
    first = oldest;  // the first look since there are tags
  first.see(oldest_open(first.sequence()), now_ns);
  oldest = first;
  for (std::uint32_t i = 0; i < tagged->count(); ++i) {
    engine::OldestRequest& of_queue = tagged->at(i).oldest;
    of_queue.see(oldest_of_queue(i), now_ns);
    if (of_queue.age_ns(now_ns) > oldest.age_ns(now_ns) || !oldest.open()) oldest = of_queue;
  }
}

bool Channel::poller_is_late() noexcept {
  if (++vain_tests % kTestsToLook != 0) return poller_late;
  const std::uint32_t turns = loop.poller_turns();
  poller_late = turns == std::exchange(poller_turns_seen, turns);
  return poller_late;
}

bool Channel::is_group(const Request& request) const noexcept {
  return side == engine::Side::Receive &&
         static_cast<const engine::RecvChannel&>(*this).groups.count_of(request) != 0;
}

bool Channel::is_of_queue(std::uint64_t sequence) noexcept { return sequence >= kOfQueue; }

std::uint64_t Channel::number_in_queue(std::uint64_t sequence) noexcept {
  return sequence & ((std::uint64_t{1} << kQueueShift) - 1);
}

Request& Channel::open_request(std::uint64_t sequence) const noexcept {
  if (!is_of_queue(sequence)) return request(sequence);
  return tags.load(std::memory_order_acquire)->at(queue_of(sequence)).request(sequence);
}

std::uint32_t Channel::open_count() const noexcept {
  DCHECK(loop.held());
  std::uint32_t count = 0;
  for_each_request([&count](const Request& request) {
    // acquire: pairs with ReceiveGroups::form(), which counts the members.
    const RequestState state = request.state.load(std::memory_order_acquire);
    if (is_open(state)) count += state == RequestState::Group ? request.open_members : 1;
  });
  return count;
}

// Only a send channel posts stripes.
void Channel::replay(const engine::Span& /*lost*/) { CHECK(side == engine::Side::Send); }

void Channel::take_no_more(Errc why) noexcept {
  DCHECK(loop.held());
  DCHECK(why != Errc::Ok);
  slow_path_ = true;
  Errc expected = Errc::Ok;
  failure.compare_exchange_strong(expected, why, std::memory_order_release,
                                  std::memory_order_relaxed);
  takes.store(engine::kTakesNothing, std::memory_order_release);
}

void Channel::sleep() noexcept {
  DCHECK(loop.held());
  takes.store(engine::kTakesNothing, std::memory_order_release);
}

void Channel::wake() noexcept {
  DCHECK(loop.held());
  if (failure.load(std::memory_order_relaxed) != Errc::Ok) return;
  takes.store(side == engine::Side::Send ? first_tag.load(std::memory_order_acquire)
                                         : engine::kTakesReceives,
              std::memory_order_release);
}

void Channel::fail_all(Errc why) noexcept {
  DCHECK(loop.held());
  take_no_more(why);
  const Errc first = failure.load(std::memory_order_relaxed);
  // A request that NCCL publishes from now on fails when it is accepted.
  drop_unposted(first);
  // acquire: a slot that NCCL is filling this moment is not ours yet, and its submission will fail
  // by itself. The first one of a group answers for its members, so they change before it. A slot
  // that becomes a group's first at this moment is left as it is.
  for_each_request([](Request& request) {
    RequestState member = RequestState::Member;
    request.state.compare_exchange_strong(member, RequestState::Gathered, std::memory_order_acq_rel,
                                          std::memory_order_acquire);
  });
  for_each_request([first](Request& request) {
    if (is_open(request.state.load(std::memory_order_acquire))) request.fail(first);
  });
}

Result<Registration*> register_memory(Channel& channel, const MemoryRange& range) {
  return channel.link.owner().register_memory(channel, range);
}

void deregister_memory(Channel& channel, Registration* region) noexcept {
  if (region != nullptr) channel.link.owner().deregister_memory(channel, *region);
}

bool is_relayed(const Channel& channel) noexcept { return channel.link.reach().all_relayed(); }

void close(Channel* channel) noexcept {
  if (channel != nullptr) channel->link.owner().close_channel(*channel);
}

}  // namespace mesh
