#include "engine/card_returns.h"

#include "engine/link/context.h"
#include "engine/link/link.h"
#include "src/base/check.h"
#include "src/base/held_locks.h"
#include "src/base/log.h"
#include "src/base/timeouts.h"

#include <algorithm>
#include <exception>
#include <span>
#include <utility>

namespace mesh::engine {

namespace {
// Opens the device that is in the rail's place now. Empty: there is none that answers.
verbs::ContextHandle open_at_place(verbs::Provider& provider, const RailInfo& rail) {
  const std::vector<verbs::DeviceEntry> devices = provider.devices();
  const auto at = std::find_if(devices.begin(), devices.end(), [&rail](const auto& each) {
    return rail.pci_path.empty() ? each.name == rail.device : each.pci_path == rail.pci_path;
  });
  if (at == devices.end()) return {};
  verbs::ContextHandle made(provider, provider.open_device(at->name));
  ibv_port_attr attr{};
  if (!made || provider.query_port(made.get(), rail.port, &attr) != 0) return {};
  return made;
}
}  // namespace

CardReturns::~CardReturns() {
  for (const auto& state : returns_) state->task.wait();
}

void CardReturns::tend() {
  while (returns_.size() < parts_.rails.size()) returns_.push_back(std::make_unique<RailReturn>());
  for (std::uint32_t rail = 0; rail < returns_.size(); ++rail) {
    if (is_away(rail)) {
      tend_rail(rail);
    } else {
      bring_in_late(rail);
    }
  }
}

// A card was late with the domain of a communicator, which uses it when the card has answered.
void CardReturns::bring_in_late(std::uint32_t rail) {
  RailReturn& state = *returns_[rail];
  if (state.round != nullptr && (!state.round->over() || !finish_round(state))) return;
  const verbs::OpenDevice::Hold card = parts_.rails[rail].context.hold();
  bool any = false;
  for (const auto& context : parts_.contexts) {
    const DeviceContext& device = *context->loop.devices[rail];
    if (!device.is_late() || device.destroys()) continue;  // the end of its call wakes us
    if (parts_.host.now_ns() < state.due_ns) return parts_.host.tend_at(state.due_ns);
    if (!is_fenced(*context, device, card)) {
      parts_.host.tend_at(parts_.host.now_ns() + kTryPauseMinNs);
    } else if (begin_round(rail, *context, card)) {
      return;
    } else {
      any = true;
    }
  }
  if (any) parts_.links.on_port_up(rail);
}

// Devices tell by an event, or by the errors of calls.
bool CardReturns::is_away(std::uint32_t rail) {
  if (parts_.events.is_away(rail)) return true;
  const bool gone =
      std::any_of(parts_.contexts.begin(), parts_.contexts.end(), [rail](const auto& each) {
        const DeviceContext& device = *each->loop.devices[rail];
        return device.gone() && !device.is_late();
      });
  if (gone) parts_.events.on_card_left(rail);
  return gone;
}

void CardReturns::tend_rail(std::uint32_t rail) {
  RailReturn& state = *returns_[rail];
  parts_.links.leave_card(rail, verbs::card_left_text(parts_.rails[rail]));
  if (state.fresh != nullptr) return renew(rail);
  if (state.looking) return take_look(rail);
  if (state.due_ns == 0) look_later(state);
  if (parts_.host.now_ns() >= state.due_ns) return look(rail);
  parts_.host.tend_at(state.due_ns);
}

void CardReturns::look_later(RailReturn& state) {
  state.pause_ns = std::clamp(2 * state.pause_ns, kTryPauseMinNs, kCardLookToNextMaxNs);
  state.due_ns = parts_.host.now_ns() + state.pause_ns;
  parts_.host.tend_at(state.due_ns);
}

void CardReturns::do_off_locks(RailReturn& state, const std::function<void()>& work) {
  state.task.wait();  // the one before is over
  state.over.store(false, std::memory_order_relaxed);
  const auto run = [this, &state, work] {
    try {
      work();
    } catch (const std::exception& error) {  // as if no card were there: another look comes
      LOG_WARN("a look for a new card: {}", error.what());
    }
    state.over.store(true, std::memory_order_release);
    parts_.host.waker().wake_control();
  };
  if (parts_.host.options().threading != Threading::Manual &&
      parts_.host.thread_pool().begin(state.task, run).ok())
    return;
  const WaitsUnderLocks no_thread;
  run();
}

void CardReturns::let_go(RailReturn& state, verbs::OpenDevice::Hold former) {
  state.former = std::move(former);
  do_off_locks(state, [&state] { state.former.reset(); });
}

void CardReturns::look(std::uint32_t rail) {
  RailReturn& state = *returns_[rail];
  if (state.task.begun() && !state.over.load(std::memory_order_acquire))
    return;  // its end wakes us
  do_off_locks(state, [this, &state, rail] {
    state.found = open_at_place(*parts_.host.options().provider, parts_.rails[rail].info);
  });
  state.looking = true;
  take_look(rail);
}

void CardReturns::take_look(std::uint32_t rail) {
  RailReturn& state = *returns_[rail];
  if (!state.over.load(std::memory_order_acquire)) return;  // its end wakes us
  state.looking = false;
  if (!state.found) return look_later(state);
  state.fresh = verbs::OpenDevice::hold_of(std::move(state.found));
  renew(rail);
}

// Returns true if nothing of the context's paths over the device can land any more, on either side.
bool CardReturns::is_fenced(Context& context, const DeviceContext& device,
                            const verbs::OpenDevice::Hold& fresh) const {
  if ((!device.is_of(fresh) || device.gate.closed()) && !device.is_quiet()) return false;
  const auto may_land = [&device](const Path& path) {
    return path.device == &device &&
           (path.health.state == PathState::Up || path.health.state == PathState::Quarantined);
  };
  return std::all_of(context.links.begin(), context.links.end(), [&](const auto& link) {
    if (!link->has_peer_link()) return true;
    if (!link->memory_rests(device)) return false;
    const ProgressLoop::Guard guard(context.loop);
    const std::span<const Path> paths = std::as_const(link->peer_link()).paths().all();
    return std::none_of(paths.begin(), paths.end(), may_land);
  });
}

void CardReturns::renew(std::uint32_t rail) {
  RailReturn& state = *returns_[rail];
  if (state.round != nullptr) {
    if (!state.round->over()) return;  // its end wakes us
    DeviceContext& done = state.round->device();
    if (!finish_round(state)) return;
    if (!done.is_of(state.fresh)) done.leave();  // it was late, and its card has left meanwhile
  }
  bool all = true;
  for (const auto& context : parts_.contexts) {
    DeviceContext& device = *context->loop.devices[rail];
    if (!device.gone()) continue;
    if (!is_fenced(*context, device, state.fresh)) {
      all = false;
      continue;
    }
    if (begin_round(rail, *context, state.fresh)) return;
  }
  if (all) return come_back(rail);
  parts_.host.tend_at(parts_.host.now_ns() + kTryPauseMinNs);
}

// Returns false if nothing is left to do: then the context uses the new card.
bool CardReturns::begin_round(std::uint32_t rail, Context& context,
                              const verbs::OpenDevice::Hold& card) {
  RailReturn& state = *returns_[rail];
  DeviceContext& device = *context.loop.devices[rail];
  auto round = std::make_unique<CardRound>(context, device, card);
  if (round->is_empty()) {
    device.come_back();
    for (const auto& link : context.links) link->tell_card_keys(device);
    return false;
  }
  round->begin();
  state.round = std::move(round);
  const auto run = [](void* self, std::uint32_t) noexcept { static_cast<CardRound*>(self)->run(); };
  if (device.call_later({.function = run, .self = state.round.get(), .argument = 0})) return true;
  const WaitsUnderLocks no_thread;
  state.round->run();
  parts_.host.tend_soon();
  return true;
}

// Returns false if the new card does not work: another look will find it, or a newer one.
bool CardReturns::finish_round(RailReturn& state) {
  const std::unique_ptr<CardRound> done = std::move(state.round);
  if (done->finish()) return true;
  let_go(state, std::exchange(state.fresh, nullptr));
  look_later(state);
  return false;
}

void CardReturns::come_back(std::uint32_t rail) {
  RailReturn& state = *returns_[rail];
  let_go(state, parts_.rails[rail].context.replace(std::exchange(state.fresh, nullptr)));
  state.due_ns = state.pause_ns = 0;
  parts_.events.on_card_back(rail);
}

void CardReturns::forget(const Context& context) {
  for (const auto& state : returns_) {
    if (state->round == nullptr || &state->round->context() != &context) continue;
    state->round->device().wait_until_destroyed();
    static_cast<void>(finish_round(*state));
  }
}

}  // namespace mesh::engine
