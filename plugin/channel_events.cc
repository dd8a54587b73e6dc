#include "plugin/channel_events.h"

#include "plugin/calls.h"
#include "plugin/registry.h"
#include "src/base/check.h"
#include "src/base/probes.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <new>

namespace mesh::plugin {

void RequestEvents::begin(const Begun& begun) noexcept {
  begun_ = begun;
  count_ = 0;
}

void RequestEvents::start(Event& event, void* phandle, Descriptor& what) const noexcept {
  event.handle = nullptr;
  event.open = true;
  begun_.profiler(&event.handle, ncclProfilerNetEventStart, phandle, nccl::kIbEventsV1, &what);
}

void RequestEvents::stop(Event& event) const noexcept {
  if (event.open && event.handle != nullptr)
    begun_.profiler(&event.handle, ncclProfilerNetEventStop, nullptr, 0, nullptr);
  event.open = false;
}

void RequestEvents::posted(const Posted& posted) noexcept {
  for (std::size_t i = 0; i < count_; ++i) {
    Event& event = events_[i];
    if (!event.open || event.offset != posted.offset) continue;
    if (event.queue_pair == posted.queue_pair) return;
    stop(event);
  }
  if (count_ == kEventsMax) return;
  MESH_PROBE4(posted, begun_.request, posted.rail, posted.queue_pair, posted.bytes);
  Descriptor what{.type = ncclProfileQp,
                  .qp = {.device = posted.rail,
                         .wr_id = posted.work_request,
                         .opcode = kOpcodeWriteWithImmediate,
                         .qpNum = static_cast<int>(posted.queue_pair),
                         .length = posted.bytes}};
  events_[count_] = {.queue_pair = posted.queue_pair, .offset = posted.offset};
  start(events_[count_++], begun_.phandle, what);
}

RequestEvents::Descriptor RequestEvents::receive_of(std::size_t bytes) const noexcept {
  return {.type = ncclProfileQp,
          .qp = {.device = begun_.rail,
                 .wr_id = 0,
                 .opcode = kOpcodeReceivedWithImmediate,
                 .qpNum = kNoQueuePair,
                 .length = bytes}};
}

void RequestEvents::add_member(void* phandle, std::size_t room) noexcept {
  DCHECK(count_ < kEventsMax);
  events_[count_] = {};
  Descriptor what = receive_of(room);
  if (phandle != nullptr) start(events_[count_], phandle, what);
  ++count_;
}

// Ends a receive's event with the bytes, which are known only now.
void RequestEvents::stop_with(Event& event, std::size_t bytes) const noexcept {
  Descriptor what = receive_of(bytes);
  if (event.open && event.handle != nullptr)
    begun_.profiler(&event.handle, ncclProfilerNetEventUpdateAndStop, nullptr, nccl::kIbEventsV1,
                    &what);
  event.open = false;
}

void RequestEvents::end(const int* sizes) noexcept {
  // No event was begun: so much has been posted since that nothing tells which queue pairs it used.
  if (is_send() && count_ == 0 && sizes != nullptr)
    posted({.rail = begun_.rail,
            .queue_pair = static_cast<std::uint32_t>(kNoQueuePair),
            .bytes = begun_.bytes});
  MESH_PROBE3(completed, begun_.request, is_send() ? 1 : 0, sizes == nullptr ? 0 : 1);
  for (std::size_t i = 0; i < count_; ++i) {
    if (is_send() || sizes == nullptr)
      stop(events_[i]);
    else
      stop_with(events_[i], static_cast<std::size_t>(sizes[i]));
  }
  count_ = 0;
}

ChannelEvents::ChannelEvents(Channel& channel, ncclProfilerCallback_t profiler)
    : profiler_(profiler), reader_(PostedReader::of(channel)) {}

ChannelEvents::~ChannelEvents() {
  while (!open_.empty()) end(*open_.back(), nullptr);
}

RequestEvents& ChannelEvents::take(const RequestEvents::Begun& begun) {
  open_.reserve(all_.size() + 1);
  free_.reserve(all_.size() + 1);  // so that end() need not allocate
  if (free_.empty()) free_.push_back(&all_.emplace_back());
  RequestEvents& taken = *free_.back();
  free_.pop_back();
  open_.push_back(&taken);
  taken.begin(begun);
  return taken;
}

void ChannelEvents::end(RequestEvents& ended, const int* sizes) noexcept {
  ended.end(sizes);
  std::erase(open_, &ended);
  free_.push_back(&ended);
}

void* ChannelEvents::send_begun(Request& request, void* phandle, std::size_t bytes) {
  RequestEvents& events = take({.channel = this,
                                .request = &request,
                                .profiler = profiler_,
                                .phandle = phandle,
                                .bytes = bytes,
                                .rail = reader_->rail()});
  see_posted();
  return as_request(events);
}

void* ChannelEvents::receive_begun(Request& request, std::span<const Member> members) {
  RequestEvents& events =
      take({.channel = this, .request = &request, .profiler = profiler_, .rail = reader_->rail()});
  for (const Member& member : members) events.add_member(member.phandle, member.room);
  return as_request(events);
}

// Passes what queue pairs were given on to the events of its requests. That happens before a
// request's slot is used again, because this thread is the one that does so.
void ChannelEvents::see_posted() {
  std::array<Posted, 64> posted;
  std::size_t count = posted.size();
  while (count == posted.size()) {
    count = reader_->read(posted);
    for (std::size_t i = 0; i < count; ++i) {
      const auto found = std::find_if(open_.begin(), open_.end(), [&](const RequestEvents* each) {
        return each->request() == posted[i].request;
      });
      if (found != open_.end()) (*found)->posted(posted[i]);
    }
  }
}

ncclResult_t ChannelEvents::test(RequestEvents& asked, int* done, int* bytes) {
  std::array<int, kGroupMax> sizes{};
  const ncclResult_t result = calls::test(asked.request(), done, sizes.data());
  const bool is_send = asked.is_send();
  const std::size_t count = asked.members();
  if (is_send) see_posted();
  if (result == ncclSuccess && *done == 0) return result;
  end(asked, result == ncclSuccess ? sizes.data() : nullptr);
  if (bytes != nullptr && *done != 0) std::copy_n(sizes.begin(), count, bytes);
  return result;
}

AllEvents& AllEvents::instance() {
  alignas(AllEvents) static std::byte place[sizeof(AllEvents)];
  static AllEvents* const all = new (place) AllEvents;
  return *all;
}

void AllEvents::set_profiler(ncclProfilerCallback_t profiler) noexcept {
  const std::lock_guard lock(mutex_);
  profiler_ = profiler;
}

ChannelEvents& AllEvents::of(void* comm) {
  const std::lock_guard lock(mutex_);
  std::unique_ptr<ChannelEvents>& channel = channels_[comm];
  if (channel == nullptr)
    channel = std::make_unique<ChannelEvents>(*static_cast<Channel*>(comm), profiler_);
  return *channel;
}

void AllEvents::drop(const void* comm) noexcept {
  const std::lock_guard lock(mutex_);
  channels_.erase(comm);
}

void AllEvents::drop_all_of(const Context* context) noexcept {
  const std::lock_guard lock(mutex_);
  const OpenComms& comms = Registry::instance().comms();
  std::erase_if(channels_,
                [&](const auto& each) { return comms.context_of(each.first) == context; });
}

}  // namespace mesh::plugin
