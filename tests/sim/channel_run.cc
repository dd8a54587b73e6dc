#include "tests/sim/channel_run.h"

#include "tests/sim/memory.h"
#include "tests/sim/world.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace mesh::sim {

namespace {
constexpr std::uint64_t kPatience = 200;  // questions

const char* state_name(SideState state) {
  switch (state) {
    case SideState::Waiting: return "waiting";
    case SideState::Opening: return "opening";
    case SideState::Running: return "running";
    case SideState::Draining: return "draining";
    case SideState::Over: break;
  }
  return "over";
}
}  // namespace

void ChannelRun::wrong(const std::string& what) const {
  world_.trace().violate(describe() + ": " + what);
}

std::string ChannelRun::describe() const {
  const auto side = [](const Side& of) {
    return fmt::format("{} ended, {} open, {}", of.ended, of.open.size(), state_name(of.state));
  };
  return fmt::format("channel {} from context {} to {}, {} messages (sender: {}; receiver: {})",
                     number_, plan_.from, plan_.to, plan_.sends.size(), side(send_),
                     side(receive_));
}

bool ChannelRun::is_truncated(std::size_t message) const {
  return plan_.sends[message].bytes > plan_.receives[receive_of_[message]].room;
}

std::span<std::byte> ChannelRun::room_of(std::size_t receive) {
  return target_[slots_[receive].region].subspan(slots_[receive].offset,
                                                 plan_.receives[receive].room);
}

std::span<const std::byte> ChannelRun::sent_bytes(std::size_t message) const {
  return source_memory().subspan(plan_.source + plan_.sends[message].source,
                                 plan_.sends[message].bytes);
}

bool ChannelRun::carried() const noexcept {
  return std::any_of(known_announced_.begin(), known_announced_.end(),
                     [](bool known) { return known; });
}

bool ChannelRun::finished(const Side& side) const { return side.ended == plan_.sends.size(); }

void ChannelRun::act(Side& side) {
  if (side.gone) return;
  check_received();
  switch (side.state) {
    case SideState::Waiting:
    case SideState::Opening: return open(side);
    case SideState::Running: return run(side);
    case SideState::Draining: return drain(side);
    case SideState::Over: return;
  }
}

void ChannelRun::run(Side& side) {
  if (finished(side)) return finish(side);
  if (end_early(side)) return;
  const bool sends = &side == &send_;
  const std::uint64_t bound = sends ? plan_.sends_open : plan_.receives_open;
  const bool may_start =
      side.started < plan_.sends.size() && side.open.size() < bound && !(sends && rests());
  if (plan_.reregister_every != 0 &&
      side.started % plan_.reregister_every == plan_.reregister_every - 1)
    reregister(side);
  if (side.state != SideState::Running) return;
  if (may_start && world_.random().one_in(2)) {
    sends ? start_send() : start_receive();
  } else {
    ask(side);
  }
}

// The sender, between two bursts.
bool ChannelRun::rests() {
  if (plan_.burst == 0 || send_.started == 0 || send_.started % plan_.burst != 0) return false;
  if (!send_.open.empty()) return true;
  if (rests_after_ != send_.started) {
    rests_after_ = send_.started;
    rests_until_ns_ = world_.now_ns();
    if (world_.random().one_in(2)) rests_until_ns_ += world_.random().below(plan_.rest_ns);
  }
  return world_.now_ns() < rests_until_ns_;
}

void ChannelRun::start_send() {
  const Message& message = plan_.sends[send_.started];
  const bool empty = message.bytes == 0 && world_.random().one_in(2);
  started(send_,
          isend(*send_.channel,
                {.data = empty ? nullptr : source_memory().data() + plan_.source + message.source,
                 .bytes = message.bytes,
                 .tag = message.tag,
                 .region = empty ? nullptr : send_.regions[0]}));
}

void ChannelRun::start_receive() {
  const std::size_t number = receive_.started;
  const Wanted& wanted = plan_.receives[number];
  const std::span<std::byte> room = room_of(number);
  const bool empty = wanted.room == 0;
  const Result<Request*> request = irecv(
      *receive_.channel, {.data = empty ? nullptr : room.data(),
                          .bytes = wanted.room,
                          .tag = wanted.tag,
                          .region = empty ? nullptr : receive_.regions[slots_[number].region]});
  if (request.ok()) slots_[number].state = SlotState::Open;
  started(receive_, request);
}

void ChannelRun::started(Side& side, Result<Request*> request) {
  if (request.code() == Errc::WouldBlock) return;
  const std::uint64_t which = &side == &send_ ? 0 : 1;
  if (!request.ok()) {
    world_.trace().note("refused",
                        {number_, which, side.started, static_cast<std::uint64_t>(request.code())});
    if ((side.excuses & excuse(request.code())) == 0)
      wrong(fmt::format("a new request: {}", errc_name(request.code())));
    side.state = SideState::Draining;
    return world_.progress();
  }
  world_.trace().note(which == 0 ? "isend" : "irecv", {number_, side.started});
  side.open.push_back({.request = *request, .number = side.started++});
  world_.progress();
}

// NCCL asks about the oldest first, mostly.
void ChannelRun::ask(Side& side) {
  if (side.open.empty()) return;
  const std::size_t at = world_.random().one_in(2) ? 0 : world_.random().below(side.open.size());
  const OpenRequest open = side.open[at];
  std::size_t bytes = open.flushes ? open.bytes : SIZE_MAX;
  const Status status = test(*open.request, open.flushes ? nullptr : &bytes);
  if (status.code() == Errc::WouldBlock) return open.flushes ? void() : check_waits(side);
  if (status.ok() && start_flush(side, side.open[at], bytes)) return;
  side.open.erase(side.open.begin() + static_cast<std::ptrdiff_t>(at));
  answered(side, open, status, bytes);
}

// False: none is needed, or it is done.
bool ChannelRun::start_flush(Side& side, OpenRequest& open, std::size_t bytes) {
  if (&side == &send_ || open.flushes || bytes == 0) return false;
  Registration* const region = side.regions[slots_[open.number].region];
  if (region == nullptr || !world_.scenario().device_memory) return false;
  const Result<Request*> flushing =
      flush(*side.channel, {.data = room_of(open.number).data(), .bytes = bytes, .region = region});
  if (!flushing.ok() || *flushing == nullptr) {
    wrong(fmt::format("a flush of receive {}: {}", open.number, errc_name(flushing.code())));
    return false;
  }
  world_.trace().note("flush", {number_, open.number});
  open = {.request = *flushing, .number = open.number, .flushes = true, .bytes = bytes};
  world_.progress();
  return true;
}

void ChannelRun::answered(Side& side, const OpenRequest& open, Status status, std::size_t bytes) {
  const bool sends = &side == &send_;
  world_.trace().note(sends ? "sent" : "received",
                      {number_, open.number, static_cast<std::uint64_t>(status.code())});
  ++side.ended;
  world_.progress();
  if (!status.ok()) return failed(side, open, status.code());
  sends ? on_sent(open.number, bytes) : on_received(open.number, bytes);
}

// The sender's answer means that the bytes are in the peer's memory.
void ChannelRun::on_sent(std::size_t number, std::size_t bytes) {
  const std::size_t receive = receive_of_[number];
  sent_[number] = true;
  if (bytes != 0)
    known_announced_[number] = true;  // an empty one also ends well when the receiver closes
  if (is_truncated(number))
    return wrong(fmt::format("send {} is larger than its receive and has not failed", number));
  if (bytes != plan_.sends[number].bytes) {
    return wrong(
        fmt::format("send {} of {} bytes says {}", number, plan_.sends[number].bytes, bytes));
  }
  const bool there =
      !receive_.gone && receive_.channel != nullptr && !taken_back_[slots_[receive].region];
  // A closing receiver leaves empty sends without a partner.
  if (!there || bytes == 0 || slots_[receive].state == SlotState::Consumed) return;
  if (world_.scenario().device_memory) return;  // only a flush says so
  if (receive >= receive_.started)
    return wrong(fmt::format("send {} is done before its receive was posted", number));
  if (std::memcmp(room_of(receive).data(), sent_bytes(number).data(), bytes) != 0) {
    wrong(fmt::format("send {} is done, but its bytes are not in the receiver's memory", number));
  }
}

void ChannelRun::on_received(std::size_t number, std::size_t bytes) {
  const std::size_t message = plan_.receives[number].message;
  world_.count_received();
  slots_[number].state = SlotState::Full;
  known_announced_[message] = true;
  if (is_truncated(message))
    return wrong(fmt::format("receive {} is smaller than its send and has not failed", number));
  if (bytes != plan_.sends[message].bytes) {
    return wrong(fmt::format("receive {} got {} bytes, sent were {}", number, bytes,
                             plan_.sends[message].bytes));
  }
  if (message >= send_.started && !send_.gone)
    return wrong(fmt::format("receive {} is done before it was sent", number));
  if (taken_back_[slots_[number].region]) return;
  // Being taken back: without a flush it is there when that is over.
  const bool going = receive_.regions[slots_[number].region] == nullptr;
  if (going && world_.scenario().device_memory && bytes != 0) return;
  check_slot(number);
  // The user goes on with its bytes: who writes them once more is found out.
  const std::span<std::byte> room = room_of(number);
  std::fill(room.begin(), room.end(), kConsumed);
  slots_[number].state = SlotState::Consumed;
}

void ChannelRun::failed(Side& side, const OpenRequest& open, Errc code) {
  const bool sends = &side == &send_;
  const std::size_t message = sends ? open.number : plan_.receives[open.number].message;
  ++side.failed;
  if (!sends) slots_[open.number].state = SlotState::Failed;
  if (code == Errc::Truncated && is_truncated(message)) {
    ++truncated_;
    known_announced_[message] = true;
    if (!sends && !taken_back_[slots_[open.number].region]) check_slot(open.number);
    return;
  }
  if ((side.excuses & excuse(code)) == 0)
    wrong(fmt::format("{} {}: {}", sends ? "send" : "receive", open.number, errc_name(code)));
  // What a peer has sent before it closed in good order is not lost.
  if (!sends && side.excuses == kPeerEnded && sent_[message])
    wrong(fmt::format("receive {} fails although it was sent", open.number));
  side.state = SideState::Draining;
}

// The channel is broken: whatever is open must end by itself.
void ChannelRun::drain(Side& side) {
  // Where it was not broken but given up here, what is open may wait for what will never be sent:
  // then it dies with its channel.
  const bool gives_up =
      (side.excuses & excuse(Errc::Revoked)) != 0 && world_.random().one_in(kPatience);
  if (!side.open.empty() && !gives_up) return ask(side);
  finish(side);
}

}  // namespace mesh::sim
