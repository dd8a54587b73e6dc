#include "perf/instructions/patterns.h"

#include <algorithm>
#include <array>
#include <vector>

namespace mesh::instructions {
namespace {

using driver::kNetSuccess;

constexpr std::uint64_t kIdleMax = 1'000'000;
constexpr std::uint64_t kWindow = 8;
void* const kOptional = reinterpret_cast<void*>(1);
constexpr std::uint64_t kSameChannel = kWindow;  // a burst's messages

bool refuse(Traffic& traffic, const char* call, int result) {
  traffic.error = std::string(call) + ": " + driver::net_result_name(result);
  return false;
}

// Counts calls without an effect. Far too many of them in a row are an error.
bool idle(Traffic& traffic) {
  if (++traffic.idle > kIdleMax && traffic.error.empty())
    traffic.error = "stuck: a million calls in a row brought nothing";
  return false;
}

std::uint64_t channel_of(const Work& work, std::uint64_t message) {
  const bool bursts = work.pattern == Pattern::Burst8 || work.pattern == Pattern::Group8;
  return bursts ? message / kSameChannel : message;
}

int tag_of(const Work& work, std::uint64_t message) {
  return work.pattern == Pattern::Group8 ? static_cast<int>(message % kWindow) : 0;
}

bool failed(const Traffic& traffic) { return !traffic.error.empty(); }

bool received_whole(Traffic& traffic, std::uint64_t message, void* request) {
  if (!receiver_test(traffic, request)) return false;
  if (traffic.work.flush) receiver_flush(traffic, message);
  return true;
}

void run_one(Traffic& traffic) {
  for (std::uint64_t message = 0; message < traffic.work.messages && !failed(traffic); ++message) {
    void *receive = nullptr, *send = nullptr;
    while (!receiver_irecv(traffic, message, &receive) && !failed(traffic)) {
    }
    while (!sender_isend(traffic, message, &send) && !failed(traffic)) {
    }
    bool sent = false, received = false;
    while (!(sent && received) && !failed(traffic)) {
      sent = sent || sender_test(traffic, send);
      received = received || received_whole(traffic, message, receive);
    }
  }
}

void run_bursts(Traffic& traffic, std::uint64_t window) {
  std::vector<void*> receives(window), sends(window);
  for (std::uint64_t first = 0; first < traffic.work.messages && !failed(traffic);
       first += window) {
    const std::uint64_t count = std::min(window, traffic.work.messages - first);
    std::uint64_t received = 0, sent = 0;
    for (std::uint64_t i = 0; i < count && !failed(traffic);)
      i += receiver_irecv(traffic, first + i, &receives[i]) ? 1 : 0;
    for (std::uint64_t i = 0; i < count && !failed(traffic);)
      i += sender_isend(traffic, first + i, &sends[i]) ? 1 : 0;
    while ((received < count || sent < count) && !failed(traffic)) {
      while (sent < count && sender_test(traffic, sends[sent])) ++sent;
      while (received < count && received_whole(traffic, first + received, receives[received]))
        ++received;
    }
  }
}

// Runs bursts whose receives have one request. The channel does not change within a group.
void run_groups(Traffic& traffic) {
  std::array<void*, kWindow> sends{};
  for (std::uint64_t first = 0; first < traffic.work.messages && !failed(traffic);
       first += kWindow) {
    void* group = nullptr;
    while (!receiver_irecv(traffic, first, &group) && !failed(traffic)) {
    }
    for (std::uint64_t i = 0; i < kWindow && !failed(traffic);)
      i += sender_isend(traffic, first + i, &sends[i]) ? 1 : 0;
    std::uint64_t sent = 0;
    bool received = false;
    while ((sent < kWindow || !received) && !failed(traffic)) {
      while (sent < kWindow && sender_test(traffic, sends[sent])) ++sent;
      received = received || received_whole(traffic, first, group);
    }
  }
}

void run_rolling(Traffic& traffic) {
  const std::uint64_t all = traffic.work.messages;
  std::array<void*, kWindow> receives{}, sends{};
  std::uint64_t received = 0, sent = 0, receives_open = 0, sends_open = 0;
  while ((received < all || sent < all) && !failed(traffic)) {
    const std::uint64_t next_receive = received + receives_open, next_send = sent + sends_open;
    if (receives_open < kWindow && next_receive < all &&
        receiver_irecv(traffic, next_receive, &receives[next_receive % kWindow]))
      ++receives_open;
    if (sends_open < kWindow && next_send < all &&
        sender_isend(traffic, next_send, &sends[next_send % kWindow]))
      ++sends_open;
    if (sends_open == kWindow || (sends_open != 0 && sent + sends_open == all)) {
      if (sender_test(traffic, sends[sent % kWindow])) ++sent, --sends_open;
    }
    if (receives_open == kWindow || (receives_open != 0 && received + receives_open == all)) {
      if (received_whole(traffic, received, receives[received % kWindow]))
        ++received, --receives_open;
    }
  }
}

}  // namespace

[[gnu::noinline]] bool receiver_irecv(Traffic& traffic, std::uint64_t message, void** request) {
  const End& end = traffic.channels.receiver(channel_of(traffic.work, message));
  *request = traffic.work.completion == Completion::Optional ? kOptional : nullptr;
  driver::NetApi& api = traffic.channels.api();
  int result = driver::kNetSuccess;
  if (traffic.work.pattern == Pattern::Group8) {
    std::array<driver::NetPiece, kWindow> pieces;
    for (std::uint64_t i = 0; i < kWindow; ++i)
      pieces[i] = {end.data, traffic.work.bytes, tag_of(traffic.work, i), end.mhandle};
    result = api.irecv_group(end.comm, pieces, request);
  } else {
    result = api.irecv(end.comm, {end.data, traffic.work.bytes, 0, end.mhandle}, request);
  }
  if (result != kNetSuccess) return refuse(traffic, "irecv", result);
  return *request != nullptr || idle(traffic);
}

[[gnu::noinline]] bool sender_isend(Traffic& traffic, std::uint64_t message, void** request) {
  const End& end = traffic.channels.sender(channel_of(traffic.work, message));
  *request = nullptr;
  const int result = traffic.channels.api().isend(
      end.comm, {end.data, traffic.work.bytes, tag_of(traffic.work, message), end.mhandle},
      request);
  if (result != kNetSuccess) return refuse(traffic, "isend", result);
  return *request != nullptr || idle(traffic);
}

[[gnu::noinline]] bool receiver_test(Traffic& traffic, void* request) {
  int done = 0;
  std::array<int, kWindow> bytes{-1};
  const int result = traffic.channels.api().test(request, &done, bytes.data());
  if (result != kNetSuccess) return refuse(traffic, "test of a receive", result);
  if (done == 0) return idle(traffic);
  traffic.idle = 0;
  const std::size_t count = traffic.work.pattern == Pattern::Group8 ? kWindow : 1;
  const bool whole = std::all_of(bytes.begin(), bytes.begin() + count, [&](int size) {
    return static_cast<std::size_t>(size) == traffic.work.bytes;
  });
  if (!whole && traffic.work.completion == Completion::Wanted)
    traffic.error = "a receive of another size than the send";
  return true;
}

[[gnu::noinline]] bool sender_test(Traffic& traffic, void* request) {
  int done = 0;
  const int result = traffic.channels.api().test(request, &done, nullptr);
  if (result != kNetSuccess) return refuse(traffic, "test of a send", result);
  if (done == 0) return idle(traffic);
  traffic.idle = 0;
  return true;
}

[[gnu::noinline]] void receiver_flush(Traffic& traffic, std::uint64_t message) {
  const End& end = traffic.channels.receiver(channel_of(traffic.work, message));
  driver::NetApi& api = traffic.channels.api();
  void* request = nullptr;
  int result = api.iflush(end.comm, {end.data, traffic.work.bytes, 0, end.mhandle}, &request);
  int done = request == nullptr ? 1 : 0;
  while (result == kNetSuccess && done == 0) result = api.test(request, &done, nullptr);
  if (result != kNetSuccess) refuse(traffic, "a flush", result);
}

std::string move_messages(Channels& channels, const Work& work) {
  Traffic traffic{.channels = channels, .work = work, .idle = 0, .error = {}};
  switch (work.pattern) {
    case Pattern::One: run_one(traffic); break;
    case Pattern::Burst8: run_bursts(traffic, kWindow); break;
    case Pattern::Group8: run_groups(traffic); break;
    case Pattern::Every: run_bursts(traffic, channels.count()); break;
    case Pattern::Rolling8: run_rolling(traffic); break;
  }
  return traffic.error;
}

}  // namespace mesh::instructions
