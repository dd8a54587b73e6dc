#include "plugin/request_events.h"

#include "src/base/check.h"
#include "src/base/probes.h"

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

}  // namespace mesh::plugin
