#include "plugin/calls.h"

#include "plugin/channel_events.h"
#include "plugin/communicator.h"
#include "plugin/registry.h"
#include "src/base/fork_guard.h"

#include <algorithm>
#include <array>
#include <exception>

namespace mesh::plugin {

namespace {

// Returns null if the call is not watched.
ChannelEvents* events_of(void* comm) noexcept {
  if (comm == nullptr || in_forked_child()) return nullptr;
  try {
    return &AllEvents::instance().of(comm);
  } catch (const std::exception&) {
    return nullptr;
  }
}

// Replaces the request by one with events. Leaves it as it is if there is no memory for them.
template <typename Begin>
void watch(void** request, Begin&& begin) noexcept {
  try {
    if (*request != nullptr) *request = begin(*static_cast<Request*>(*request));
  } catch (const std::exception&) {
  }
}

// NOLINTBEGIN(readability-function-size): NCCL's signatures.
ncclResult_t isend(void* comm, void* data, std::size_t bytes, int tag, void* mhandle, void* phandle,
                   void** request) noexcept {
  ChannelEvents* const events = phandle == nullptr ? nullptr : events_of(comm);
  const ncclResult_t result = calls::isend_v10(comm, data, bytes, tag, mhandle, phandle, request);
  if (events == nullptr || result != ncclSuccess) return result;
  watch(request, [&](Request& begun) { return events->send_begun(begun, phandle, bytes); });
  return result;
}

ncclResult_t irecv(void* comm, int n, void** data, std::size_t* bytes, int* tags, void** mhandles,
                   void** phandles, void** request) noexcept {
  const bool watched = phandles != nullptr && n >= 1 && n <= static_cast<int>(kGroupMax);
  ChannelEvents* const events = watched ? events_of(comm) : nullptr;
  const ncclResult_t result =
      calls::irecv_v10(comm, n, data, bytes, tags, mhandles, phandles, request);
  if (events == nullptr || result != ncclSuccess) return result;
  std::array<ChannelEvents::Member, kGroupMax> members;
  const auto count = static_cast<std::size_t>(n);
  for (std::size_t i = 0; i < count; ++i) members[i] = {.phandle = phandles[i], .room = bytes[i]};
  watch(request, [&](Request& begun) {
    return events->receive_begun(begun, std::span(members).first(count));
  });
  return result;
}

// NOLINTEND(readability-function-size)

ncclResult_t test(void* request, int* done, int* bytes) noexcept {
  if (!ChannelEvents::is_ours(request)) return calls::test(request, done, bytes);
  if (in_forked_child()) return calls::test(nullptr, done, bytes);
  RequestEvents& asked = ChannelEvents::of(request);
  try {
    return asked.channel().test(asked, done, bytes);
  } catch (const std::exception&) {
    *done = 0;
    return ncclSystemError;
  }
}

ncclResult_t close_channel(void* comm) noexcept {
  if (!in_forked_child()) AllEvents::instance().drop(comm);
  return calls::close_channel(comm);
}

ncclResult_t finalize(void* context) noexcept {
  auto* const communicator = static_cast<const Communicator*>(context);
  if (!in_forked_child() && Registry::instance().is_open(communicator))
    AllEvents::instance().drop_all_of(communicator->context);
  return calls::finalize(context);
}

// Leaves a table that has these calls already untouched, because it may be in use.
template <typename Net>
void set_calls(Net& net, bool watched) noexcept {
  if (net.isend == (watched ? isend : calls::isend_v10)) return;
  net.isend = watched ? isend : calls::isend_v10;
  net.irecv = watched ? irecv : calls::irecv_v10;
  net.test = watched ? test : calls::test;
  net.closeSend = net.closeRecv = watched ? close_channel : calls::close_channel;
  if constexpr (requires { net.finalize; }) net.finalize = watched ? finalize : calls::finalize;
}

}  // namespace

void choose_calls(ncclProfilerCallback_t profiler) noexcept {
  Registry& registry = Registry::instance();
  if (!registry.comms().empty()) return;
  if (!registry.profiler_wanted()) profiler = nullptr;
  AllEvents::instance().set_profiler(profiler);
  const bool watched = profiler != nullptr;
  set_calls(ncclNetPlugin_v10, watched);
  set_calls(ncclNetPlugin_v11, watched);
  set_calls(ncclNetPlugin_v12, watched);
}

}  // namespace mesh::plugin
