// How a channel begins and ends. It begins with listen, connect, accept and registrations. It ends,
// planned or not, when memory is taken back and its sides are closed; what must still be true
// afterwards is checked here.

#include "engine/data/peer_link.h"
#include "tests/sim/channel_run.h"
#include "tests/sim/memory.h"
#include "tests/sim/world.h"

namespace mesh::sim {
namespace {
constexpr std::size_t kGuard = 64;
}

ChannelRun::ChannelRun(World& world, std::size_t number, const ChannelPlan& plan)
    : world_(world), number_(number), plan_(plan) {
  send_.context = plan_.from;
  receive_.context = plan_.to;
  receive_of_.resize(plan_.sends.size());
  sent_.resize(plan_.sends.size());
  known_announced_.resize(plan_.sends.size());
  taken_back_.resize(plan_.regions);
  std::vector<std::size_t> used(plan_.regions, kGuard);
  for (std::size_t i = 0; i < plan_.receives.size(); ++i) {
    receive_of_[plan_.receives[i].message] = i;
    const std::size_t region = i % plan_.regions;
    slots_.push_back({.region = region, .offset = used[region]});
    used[region] += plan_.receives[i].room + kGuard;
  }
  for (const std::size_t bytes : used) target_.push_back(world_.target().take(bytes));
  for (const std::span<std::byte> piece : target_)
    if (piece.empty())
      throw std::runtime_error("the scenario needs more target memory than there is");
}

void ChannelRun::open(Side& side) {
  if (side.state == SideState::Waiting) {
    if (plan_.after != SIZE_MAX && !world_.channel(plan_.after).over()) return;
    side.state = SideState::Opening;
    world_.progress();
  }
  &side == &receive_ ? listen_and_accept() : dial();
}

int ChannelRun::device(const Side& side, int planned) {
  if (planned >= 0) return planned;
  return static_cast<int>(world_.random().below(world_.engine_of(side.context).rails().size()));
}

void ChannelRun::listen_and_accept() {
  Engine& engine = world_.engine_of(receive_.context);
  if (!listened_) {
    listened_ = true;
    const Result<Listener*> made =
        engine.listen(world_.context(receive_.context), device(receive_, plan_.listens), handle_);
    if (!made.ok()) return wrong(fmt::format("listen: {}", errc_name(made.code())));
    listener_ = *made;
    world_.trace().note("listen", {number_});
    return;
  }
  if (plan_.ending == Ending::NeverAccepted && world_.random().one_in(8)) {
    engine.close_listener(listener_);
    listener_ = nullptr;
    send_.excuses |= kPeerEnded;
    receive_.state = SideState::Over;
    world_.progress();
    world_.trace().note("close listener", {number_});
    return;
  }
  // A sender that has given up never connects.
  if (send_.state == SideState::Over && send_.channel == nullptr) {
    engine.close_listener(listener_);
    listener_ = nullptr;
    receive_.state = SideState::Over;
    return world_.progress();
  }
  const Result<Channel*> accepted = engine.accept(*listener_);
  if (accepted.code() == Errc::WouldBlock) return;
  if (!accepted.ok()) return refused(accepted.code());
  engine.close_listener(listener_);
  listener_ = nullptr;
  receive_.channel = *accepted;
  on_open(receive_);
}

// Ends the receiving side after a failed accept. The sender's connect has failed too, or will.
void ChannelRun::refused(Errc why) {
  world_.trace().note("accept failed", {number_, static_cast<std::uint64_t>(why)});
  if ((receive_.excuses & excuse(why)) == 0) wrong(fmt::format("accept: {}", errc_name(why)));
  world_.engine_of(receive_.context).close_listener(listener_);
  listener_ = nullptr;
  receive_.state = SideState::Over;
  send_.excuses |= kPeerAborted;
  world_.progress();
}

void ChannelRun::dial() {
  if (!listened_) {
    if (receive_.gone) send_.state = SideState::Over, world_.progress();
    return;
  }
  Engine& engine = world_.engine_of(send_.context);
  if (!dialing_) world_.trace().note("connect", {number_});
  dialing_ = true;
  const Result<Channel*> connected =
      engine.connect(world_.context(send_.context), device(send_, plan_.device), handle_);
  if (connected.code() == Errc::WouldBlock) return;
  if (connected.ok()) {
    send_.channel = *connected;
    return on_open(send_);
  }
  world_.trace().note("connect failed", {number_, static_cast<std::uint64_t>(connected.code())});
  if ((send_.excuses & excuse(connected.code())) == 0)
    wrong(fmt::format("connect: {}", errc_name(connected.code())));
  send_.state = SideState::Over;
  // The acceptor's end of the channel may have come up; it learns of the failure by itself.
  receive_.excuses |= kPeerAborted;
  world_.progress();
}

void ChannelRun::on_open(Side& side) {
  side.state = SideState::Running;
  side.link = side.channel->link.identity().id;
  side.index = side.channel->index;
  side.regions.resize(&side == &send_ ? 1 : plan_.regions);
  for (std::size_t region = 0; region < side.regions.size(); ++region)
    register_region(side, region);
  world_.trace().note("open", {number_, &side == &send_ ? 0u : 1u});
  world_.progress();
}

std::span<std::byte> ChannelRun::memory_of(const Side& side, std::size_t region) {
  if (&side == &send_) return source_memory().subspan(plan_.source, plan_.source_bytes);
  return target_[region];
}

bool ChannelRun::register_region(Side& side, std::size_t region) {
  const std::span<std::byte> memory = memory_of(side, region);
  const bool device = &side == &receive_ && world_.scenario().device_memory;
  const Result<Registration*> made = register_memory(
      *side.channel, memory.data(), memory.size(), device ? MemoryType::Device : MemoryType::Host);
  if (!made.ok()) wrong(fmt::format("register_memory: {}", errc_name(made.code())));
  side.regions[region] = made.ok() ? *made : nullptr;
  return made.ok();
}

// ---- The end.

// Takes the regions back first and then closes the channel, as NCCL does.
void ChannelRun::finish(Side& side) {
  if (world_.nested()) return;  // taking memory back may wait
  if (plan_.keeps && world_.keepers_stay()) return;
  for (std::size_t region = 0; region < side.regions.size(); ++region) {
    if (side.regions[region] == nullptr) continue;
    take_back(side, region);
    return;  // one at a time
  }
  close_side(side);
}

bool ChannelRun::end_early(Side& side) {
  const bool sends = &side == &send_;
  const bool closes = plan_.ending == (sends ? Ending::SenderCloses : Ending::ReceiverCloses);
  const bool takes_back =
      plan_.ending == (sends ? Ending::SenderTakesBack : Ending::ReceiverTakesBack);
  const bool due =
      plan_.ends_when_struck ? struck_ && side.started != 0 : side.started >= plan_.ends_at;
  if ((!closes && !takes_back) || !due || world_.nested()) return false;
  if (closes) {
    close_side(side);
    return true;
  }
  const std::size_t region = plan_.ends_at % side.regions.size();
  if (side.regions[region] == nullptr || side.open.empty()) return false;
  take_back(side, region);
  // Only the engine knows whether a request was still under way; no new request can name this
  // memory.
  side.excuses |= excuse(Errc::Revoked);
  side.state = SideState::Draining;
  other(side).excuses |= kPeerEnded;
  return true;
}

void ChannelRun::close_side(Side& side) {
  world_.trace().note("close", {number_, &side == &send_ ? 0u : 1u, side.open.size()});
  // A side that has not done its part leaves its peer without a partner.
  if (!finished(side) || side.failed != 0) other(side).excuses |= kPeerEnded;
  close(side.channel);
  side.state = SideState::Over;
  side.channel = nullptr;
  side.open.clear();
  world_.progress();
}

void ChannelRun::take_back(Side& side, std::size_t region) {
  const bool sends = &side == &send_;
  world_.trace().note("deregister", {number_, sends ? 0u : 1u, region});
  world_.taking_back_begins(side.context, *this);
  Registration* const registration = side.regions[region];
  side.regions[region] = nullptr;
  // The peer may learn meanwhile that the memory is taken back.
  if (!side.open.empty()) other(side).excuses |= kPeerEnded, side.excuses |= excuse(Errc::Revoked);
  deregister_memory(*side.channel, registration);
  world_.taking_back_ends(side.context);
  if (!sends) {
    if (!side.gone) check_given_back(region);
    check_region(region);
    taken_back_[region] = true;
    std::fill(target_[region].begin(), target_[region].end(), kTakenBack);
  }
  world_.trace().note("deregistered", {number_, sends ? 0u : 1u, region});
  world_.progress();
}

// Checks that the region is no longer registered. No two sides receive into one piece of memory,
// and a registration that outlives it would lead to whatever pages lie there next.
void ChannelRun::check_given_back(std::size_t region) {
  if (world_.registers(receive_.context, target_[region]))
    wrong(fmt::format("region {} is still registered after it was given back", region));
}

// Deregisters memory that no open request names, and registers it again for the next requests.
void ChannelRun::reregister(Side& side) {
  if (world_.nested()) return;
  const std::size_t region = world_.random().below(side.regions.size());
  if (side.regions[region] == nullptr) return;
  const bool used = std::any_of(side.open.begin(), side.open.end(), [&](const OpenRequest& open) {
    bool names = &side == &send_;
    for (std::size_t i = 0; i < open.members; ++i)
      names = names || slots_[open.number + i].region == region;
    return names;
  });
  if (used) return;
  world_.wait_begins(side.context);
  deregister_memory(*side.channel, side.regions[region]);
  world_.wait_ends(side.context);
  if (side.gone) return;
  if (&side == &receive_) check_given_back(region);
  register_region(side, region);
  world_.trace().note("reregister", {number_, &side == &send_ ? 0u : 1u, region});
}

void ChannelRun::lose_side(Side& side) {
  if (side.gone) return;
  side.gone = true;
  if (side.state != SideState::Over) world_.progress();
  side.state = SideState::Over;
  side.channel = nullptr;
  side.open.clear();
}

// Checks that a receive has its send's bytes, as far as they have come, and nothing behind them.
bool ChannelRun::check_room(std::size_t number) {
  const SlotState state = slots_[number].state;
  const std::size_t message = plan_.receives[number].message;
  const std::span<std::byte> room = room_of(number);
  const std::span<const std::byte> sent = sent_bytes(message);
  const std::size_t bytes =
      is_truncated(message) || state == SlotState::Untouched ? 0 : sent.size();
  for (std::size_t i = 0; i < bytes; ++i) {
    if (room[i] == sent[i] || (state != SlotState::Full && room[i] == kUntouched)) continue;
    return wrong(fmt::format("receive {}: byte {} of {} is not what was sent", number, i, bytes)),
           false;
  }
  if (all_are(room.subspan(bytes), kUntouched)) return true;
  return wrong(fmt::format("receive {}: bytes behind its {}", number, bytes)), false;
}

void ChannelRun::check_slot(std::size_t number) {
  const ReceiveSlot& slot = slots_[number];
  const std::span<std::byte> room = room_of(number);
  if (slot.state == SlotState::Consumed && !all_are(room, kConsumed)) {
    return wrong(fmt::format("receive {}: bytes written after it was done", number));
  }
  if (slot.state != SlotState::Consumed && !check_room(number)) return;
  const std::span<std::byte> piece = target_[slot.region];
  if (!all_are(piece.subspan(slot.offset - kGuard, kGuard), kUntouched) ||
      !all_are(piece.subspan(slot.offset + room.size(), kGuard), kUntouched)) {
    wrong(fmt::format("receive {}: bytes outside of its room", number));
  }
}

void ChannelRun::check_region(std::size_t region) {
  for (std::size_t i = 0; i < slots_.size() && !world_.trace().violated(); ++i) {
    if (slots_[i].region == region) check_slot(i);
  }
}

void ChannelRun::check_memory() {
  for (std::size_t region = 0; region < target_.size(); ++region) {
    if (!taken_back_[region]) {
      check_region(region);
    } else if (!all_are(target_[region], kTakenBack)) {
      wrong(fmt::format("region {} was written after it had been taken back", region));
    }
  }
}

}  // namespace mesh::sim
