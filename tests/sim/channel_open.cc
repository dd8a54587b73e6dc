// Opening a channel: listen, connect, accept, registrations.

#include "engine/data/peer_link.h"
#include "tests/sim/channel_run.h"
#include "tests/sim/memory.h"
#include "tests/sim/world.h"

#include <fmt/format.h>

#include <stdexcept>

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

void ChannelRun::listen_and_accept() {
  Engine& engine = world_.engine_of(receive_.context);
  if (!listened_) {
    listened_ = true;
    const auto rails = engine.rails().size();
    const Result<Listener*> made = engine.listen(
        world_.context(receive_.context), static_cast<int>(world_.random().below(rails)), handle_);
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
  // A sender that has given up never comes.
  if (send_.state == SideState::Over && send_.channel == nullptr) {
    engine.close_listener(listener_);
    listener_ = nullptr;
    receive_.state = SideState::Over;
    return world_.progress();
  }
  const Result<Channel*> accepted = engine.accept(*listener_);
  if (accepted.code() == Errc::WouldBlock) return;
  if (!accepted.ok()) return wrong(fmt::format("accept: {}", errc_name(accepted.code())));
  engine.close_listener(listener_);
  listener_ = nullptr;
  receive_.channel = *accepted;
  on_open(receive_);
}

void ChannelRun::dial() {
  if (!listened_) {
    if (receive_.gone) send_.state = SideState::Over, world_.progress();
    return;
  }
  Engine& engine = world_.engine_of(send_.context);
  const auto rails = engine.rails().size();
  if (!dialing_) world_.trace().note("connect", {number_});
  dialing_ = true;
  const Result<Channel*> connected = engine.connect(
      world_.context(send_.context), static_cast<int>(world_.random().below(rails)), handle_);
  if (connected.code() == Errc::WouldBlock) return;
  if (connected.ok()) {
    send_.channel = *connected;
    return on_open(send_);
  }
  world_.trace().note("connect failed", {number_, static_cast<std::uint64_t>(connected.code())});
  if ((send_.excuses & excuse(connected.code())) == 0)
    wrong(fmt::format("connect: {}", errc_name(connected.code())));
  send_.state = SideState::Over;
  // The acceptor's end of it may have come up; it learns by itself.
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
  const Result<Registration*> made =
      register_memory(*side.channel, memory.data(), memory.size(), MemoryType::Host);
  if (!made.ok()) wrong(fmt::format("register_memory: {}", errc_name(made.code())));
  side.regions[region] = made.ok() ? *made : nullptr;
  return made.ok();
}

}  // namespace mesh::sim
