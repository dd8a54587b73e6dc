#include "tests/sim/channel_run.h"

#include "tests/sim/memory.h"
#include "tests/sim/world.h"

namespace mesh::sim {
namespace {
constexpr std::uint64_t kPatience = 200;  // tests of a request

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

// Returns whether the sender waits between two bursts.
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

RecvArgs ChannelRun::wanted(std::size_t number) {
  const Wanted& wanted = plan_.receives[number];
  const bool empty = wanted.room == 0;
  return {.data = empty ? nullptr : room_of(number).data(),
          .bytes = wanted.room,
          .tag = wanted.tag,
          .region = empty ? nullptr : receive_.regions[slots_[number].region]};
}

void ChannelRun::start_receive() {
  const std::size_t number = receive_.started;
  std::size_t members = 1;
  if (plan_.group_max > 1) {
    members = std::min<std::size_t>(1 + world_.random().below(plan_.group_max),
                                    plan_.receives.size() - number);
  }
  std::array<RecvArgs, kGroupMax> group;
  for (std::size_t i = 0; i < members; ++i) group[i] = wanted(number + i);
  const Result<Request*> request =
      members == 1 ? irecv(*receive_.channel, group[0])
                   : irecv_group(*receive_.channel, std::span(group).first(members));
  for (std::size_t i = 0; request.ok() && i < members; ++i)
    slots_[number + i].state = SlotState::Open;
  started(receive_, request);
  if (!request.ok()) return;
  receive_.open.back().members = members;
  receive_.started += members - 1;
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

// Tests the oldest open request in half of the calls, as NCCL mostly does, else any of them.
void ChannelRun::ask(Side& side) {
  if (side.open.empty()) return;
  const std::size_t at = world_.random().one_in(2) ? 0 : world_.random().below(side.open.size());
  const Status status = look(side.open[at]);
  if (status.code() == Errc::WouldBlock) return side.open[at].flushes ? void() : check_waits(side);
  if (status.ok() && start_flush(side, side.open[at])) return;
  const OpenRequest open = side.open[at];
  side.open.erase(side.open.begin() + static_cast<std::ptrdiff_t>(at));
  answered(side, open, status);
}

Status ChannelRun::look(OpenRequest& open) {
  if (open.flushes) return test(*open.request, nullptr);
  open.bytes.fill(SIZE_MAX);
  if (open.members == 1) return test(*open.request, open.bytes.data());
  const Result<std::size_t> members = test_group(*open.request, open.bytes);
  if (members.ok() && *members != open.members)
    wrong(fmt::format("a group of {} says that it has {}", open.members, *members));
  return members.status();
}

// Starts the flush of a receive that is done. Returns false if none is needed, or if the flush is
// done. All memory of the side belongs to one GPU, so one read serves a group.
bool ChannelRun::start_flush(Side& side, OpenRequest& open) {
  if (&side == &send_ || open.flushes || !world_.scenario().device_memory) return false;
  for (std::size_t i = 0; i < open.members; ++i) {
    const std::size_t number = open.number + i;
    Registration* const region = side.regions[slots_[number].region];
    if (region == nullptr || open.bytes[i] == 0) continue;
    const Result<Request*> flushing = flush(
        *side.channel, {.data = room_of(number).data(), .bytes = open.bytes[i], .region = region});
    if (!flushing.ok() || *flushing == nullptr) {
      wrong(fmt::format("a flush of receive {}: {}", number, errc_name(flushing.code())));
      return false;
    }
    world_.trace().note("flush", {number_, number});
    open.request = *flushing;
    open.flushes = true;
    world_.progress();
    return true;
  }
  return false;
}

void ChannelRun::answered(Side& side, const OpenRequest& open, Status status) {
  const bool sends = &side == &send_;
  world_.trace().note(sends ? "sent" : "received",
                      {number_, open.number, static_cast<std::uint64_t>(status.code())});
  side.ended += open.members;
  world_.progress();
  if (!status.ok()) return failed(side, open, status.code());
  for (std::size_t i = 0; i < open.members; ++i)
    sends ? on_sent(open.number, open.bytes[0]) : on_received(open.number + i, open.bytes[i]);
}

// Checks a send that has ended with Ok: its bytes are in the peer's memory.
void ChannelRun::on_sent(std::size_t number, std::size_t bytes) {
  const std::size_t receive = receive_of_[number];
  sent_[number] = true;
  if (bytes != 0)
    known_announced_[number] = true;  // an empty send also ends with Ok when the receiver closes
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
  if (world_.scenario().device_memory) return;  // only a flush shows that the bytes are there
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
  // A region that is being taken back gets no flush; its bytes are there when that is over.
  const bool going = receive_.regions[slots_[number].region] == nullptr;
  if (going && world_.scenario().device_memory && bytes != 0) return;
  check_slot(number);
  // The user overwrites the bytes that it has received, so that a later write to them is found.
  const std::span<std::byte> room = room_of(number);
  std::fill(room.begin(), room.end(), kConsumed);
  slots_[number].state = SlotState::Consumed;
}

// If one member's send is too large, the other members' messages have come, but nothing says how
// many bytes each has, and none is flushed.
void ChannelRun::failed(Side& side, const OpenRequest& open, Errc code) {
  if (open.members == 1) return failed_member(side, open.number, code);
  bool truncated = false;
  for (std::size_t i = 0; i < open.members; ++i)
    truncated |= is_truncated(plan_.receives[open.number + i].message);
  for (std::size_t number = open.number; number < open.number + open.members; ++number) {
    const std::size_t message = plan_.receives[number].message;
    if (code == Errc::Truncated && truncated && !is_truncated(message)) {
      world_.count_received();
      slots_[number].state = SlotState::Failed;
      known_announced_[message] = true;
    } else {
      failed_member(side, number, code);
    }
  }
}

void ChannelRun::failed_member(Side& side, std::size_t number, Errc code) {
  const bool sends = &side == &send_;
  const std::size_t message = sends ? number : plan_.receives[number].message;
  ++side.failed;
  if (!sends) slots_[number].state = SlotState::Failed;
  if (code == Errc::Truncated && is_truncated(message)) {
    ++truncated_;
    known_announced_[message] = true;
    if (!sends && !taken_back_[slots_[number].region]) check_slot(number);
    return;
  }
  world_.see_cut();
  if ((side.excuses & excuse(code)) == 0)
    wrong(fmt::format("{} {}: {}", sends ? "send" : "receive", number, errc_name(code)));
  // A message that the peer has sent before it closed in good order is not lost.
  const bool alone = plan_.group_max <= 1;
  if (!sends && alone && side.excuses == kPeerEnded && sent_[message])
    wrong(fmt::format("receive {} fails although it was sent", number));
  side.state = SideState::Draining;
}

// Ends the side of a broken channel: every open request must end by itself.
void ChannelRun::drain(Side& side) {
  // If this side gave the channel up, a request may wait for a message that will never be sent:
  // such a request ends with its channel.
  const bool gives_up =
      (side.excuses & excuse(Errc::Revoked)) != 0 && world_.random().one_in(kPatience);
  if (!side.open.empty() && !gives_up) return ask(side);
  finish(side);
}

}  // namespace mesh::sim
