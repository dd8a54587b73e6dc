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
  for (const auto& place : places_) place->task.wait();
}

void CardReturns::tend() {
  while (places_.size() < parts_.rails.size()) places_.push_back(std::make_unique<Place>());
  for (std::uint32_t rail = 0; rail < places_.size(); ++rail)
    if (is_away(rail)) tend_place(rail);
}

// Devices tell by an event, or by the errors of calls.
bool CardReturns::is_away(std::uint32_t rail) {
  if (parts_.events.is_away(rail)) return true;
  const bool gone =
      std::any_of(parts_.contexts.begin(), parts_.contexts.end(),
                  [rail](const auto& each) { return each->loop.devices[rail]->gone(); });
  if (gone) parts_.events.on_card_left(rail);
  return gone;
}

void CardReturns::tend_place(std::uint32_t rail) {
  Place& place = *places_[rail];
  parts_.links.leave_card(rail, verbs::card_left_text(parts_.rails[rail]));
  if (place.fresh != nullptr) return renew(rail);
  if (place.looking) return take_look(rail);
  if (place.due_ns == 0) look_later(place);
  if (parts_.host.now_ns() >= place.due_ns) return look(rail);
  parts_.host.tend_at(place.due_ns);
}

void CardReturns::look_later(Place& place) {
  place.pause_ns = std::clamp(2 * place.pause_ns, kCardLookToNextMinNs, kCardLookToNextMaxNs);
  place.due_ns = parts_.host.now_ns() + place.pause_ns;
  parts_.host.tend_at(place.due_ns);
}

void CardReturns::do_off_locks(Place& place, const std::function<void()>& work) {
  place.task.wait();  // the one before is over
  place.over.store(false, std::memory_order_relaxed);
  const auto run = [this, &place, work] {
    try {
      work();
    } catch (const std::exception& error) {  // as if no card were there: another look comes
      LOG_WARN("a look for a new card: {}", error.what());
    }
    place.over.store(true, std::memory_order_release);
    parts_.host.waker().wake_control();
  };
  if (parts_.host.options().threading != Threading::Manual &&
      parts_.host.thread_pool().begin(place.task, run).ok())
    return;
  const WaitsUnderLocks no_thread;
  run();
}

void CardReturns::let_go(Place& place, verbs::OpenDevice::Hold former) {
  place.former = std::move(former);
  do_off_locks(place, [&place] { place.former.reset(); });
}

void CardReturns::look(std::uint32_t rail) {
  Place& place = *places_[rail];
  if (place.task.begun() && !place.over.load(std::memory_order_acquire))
    return;  // its end wakes us
  do_off_locks(place, [this, &place, rail] {
    place.found = open_at_place(*parts_.host.options().provider, parts_.rails[rail].info);
  });
  place.looking = true;
  take_look(rail);
}

void CardReturns::take_look(std::uint32_t rail) {
  Place& place = *places_[rail];
  if (!place.over.load(std::memory_order_acquire)) return;  // its end wakes us
  place.looking = false;
  if (!place.found) return look_later(place);
  place.fresh = verbs::OpenDevice::hold_of(std::move(place.found));
  renew(rail);
}

// Returns true if nothing of the context's paths over the device can land any more, on either side.
bool CardReturns::is_fenced(const Context& context, const DeviceContext& device,
                            const verbs::OpenDevice::Hold& fresh) const {
  if (!device.is_of(fresh) && !device.is_quiet()) return false;
  const auto may_land = [&device](const Path& path) {
    return path.device == &device &&
           (path.health.state == PathState::Up || path.health.state == PathState::Quarantined);
  };
  return std::all_of(context.links.begin(), context.links.end(), [&](const auto& link) {
    if (!link->has_peer_link()) return true;
    const std::span<const Path> paths = std::as_const(link->peer_link()).paths().all();
    return link->memory_rests(device) && std::none_of(paths.begin(), paths.end(), may_land);
  });
}

void CardReturns::renew(std::uint32_t rail) {
  Place& place = *places_[rail];
  if (place.round != nullptr) {
    if (!place.round->over()) return;  // its end wakes us
    if (!finish_round(place)) return;
  }
  bool all = true;
  for (const auto& context : parts_.contexts) {
    DeviceContext& device = *context->loop.devices[rail];
    if (!device.gone()) continue;
    if (!is_fenced(*context, device, place.fresh)) {
      all = false;
      continue;
    }
    if (begin_round(rail, *context)) return;
  }
  if (all) return come_back(rail);
  parts_.host.tend_at(parts_.host.now_ns() + kCardLookToNextMinNs);
}

// Returns false if nothing is left to do: then the context uses the new card.
bool CardReturns::begin_round(std::uint32_t rail, Context& context) {
  Place& place = *places_[rail];
  DeviceContext& device = *context.loop.devices[rail];
  auto round = std::make_unique<CardRound>(context, device, place.fresh);
  if (round->is_empty()) {
    device.come_back();
    for (const auto& link : context.links) link->tell_card_keys(device);
    return false;
  }
  round->begin();
  place.round = std::move(round);
  const auto run = [](void* self, std::uint32_t) noexcept { static_cast<CardRound*>(self)->run(); };
  if (device.call_later({.function = run, .self = place.round.get(), .argument = 0})) return true;
  const WaitsUnderLocks no_thread;
  place.round->run();
  parts_.host.tend_soon();
  return true;
}

// Returns false if the new card does not work: another look will find it, or a newer one.
bool CardReturns::finish_round(Place& place) {
  const std::unique_ptr<CardRound> done = std::move(place.round);
  if (done->finish()) return true;
  let_go(place, std::exchange(place.fresh, nullptr));
  look_later(place);
  return false;
}

void CardReturns::come_back(std::uint32_t rail) {
  Place& place = *places_[rail];
  let_go(place, parts_.rails[rail].context.replace(std::exchange(place.fresh, nullptr)));
  place.due_ns = place.pause_ns = 0;
  parts_.events.on_card_back(rail);
}

void CardReturns::forget(const Context& context) {
  for (const auto& place : places_) {
    if (place->round == nullptr || &place->round->context() != &context) continue;
    place->round->device().wait_until_destroyed();
    static_cast<void>(finish_round(*place));
  }
}

}  // namespace mesh::engine
