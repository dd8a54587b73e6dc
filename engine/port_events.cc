#include "engine/port_events.h"

#include "engine/link/cable_proofs.h"
#include "engine/link/relay/neighbours.h"
#include "engine/link/relay/relay_client.h"
#include "src/base/log.h"
#include "src/base/timeouts.h"

#include <exception>
#include <optional>
#include <span>
#include <string>
#include <utility>

namespace mesh::engine {

PortEvents::~PortEvents() {
  for (const auto& look : looks_) look->task.wait();
}

void PortEvents::watch(ControlPlane& plane) {
  plane_ = &plane;
  downs_.resize(host_.rails().size());
  collected_.reserve(downs_.size() * kEventsPerPass);
  for (const verbs::Rail& rail : host_.rails())
    if (rail.view != nullptr) looks_.push_back(std::make_unique<Look>());
  for (const verbs::Rail& rail : host_.rails()) {
    speeds_.push_back(rail.info.speed_mbps);
    const int fd = host_.options().provider->event_fd(rail.context.get());
    if (fd >= 0) static_cast<void>(plane.watch(fd));
  }
}

void PortEvents::collect() noexcept {
  verbs::Provider& provider = *host_.options().provider;
  const std::span<const verbs::Rail> rails = host_.rails();
  for (std::uint32_t i = 0; i < rails.size(); ++i) {
    Collected next{.rail = i, .event = {}};
    for (int taken = 0; taken < kEventsPerPass && collected_.size() < collected_.capacity() &&
                        provider.next_event(rails[i].context.get(), &next.event);
         ++taken)
      collected_.push_back(next);
  }
}

bool PortEvents::take_collected() {
  const bool any = !collected_.empty();
  for (const Collected& each : collected_) take(each.rail, each.event);
  collected_.clear();
  return any;
}

void PortEvents::add_to(EngineSnapshot& shot) const noexcept {
  for (std::size_t rail = 0; rail < downs_.size(); ++rail) {
    shot.rails[rail].port_downs = downs_[rail];
    shot.rails[rail].speed_mbps = speeds_[rail];
  }
}

void PortEvents::take_answers() {
  for (std::uint32_t rail = 0; rail < looks_.size(); ++rail) {
    Look& look = *looks_[rail];
    if (!look.task.begun() || !look.over.load(std::memory_order_acquire)) continue;
    look.task.wait();  // it has nothing left to do but to end
    if (look.failed) {
      look.keep_answers();
      continue;
    }
    const Look::Events answers = std::exchange(look.answers, {});
    if (!is_away(rail) && host_.rails()[rail].view->card_left()) on_card_left(rail);
    if (answers.up) on_port_change(rail, true);
    if (answers.address) links_.on_port_up(rail);
    if (answers.lid) on_lid_change(rail);
    if (answers.speed) see_speed(rail);
  }
}

void PortEvents::look() {
  const std::uint64_t now_ns = host_.now_ns();
  for (std::uint32_t rail = 0; rail < looks_.size(); ++rail) {
    Look& look = *looks_[rail];
    if (look.task.begun()) continue;
    const bool early = now_ns < look.began_ns + kLookToNextNs;
    const bool due = !early && (look.failed || host_.rails()[rail].view->take_wish());
    if (look.waiting.any || due) begin_look(rail);
  }
}

void PortEvents::begin_look(std::uint32_t rail) {
  Look& look = *looks_[rail];
  look.began_ns = host_.now_ns();
  look.over.store(false, std::memory_order_relaxed);
  look.failed = false;
  const auto work = [this, rail] {  // so small that std::function allocates nothing for it
    try {
      verbs::look_at_port(*host_.options().provider, host_.rails()[rail]);
    } catch (const std::exception&) {
      looks_[rail]->failed = true;
    }
    looks_[rail]->over.store(true, std::memory_order_release);
    host_.waker().wake_control();
  };
  if (!host_.thread_pool().begin(look.task, work).ok()) return host_.tend_soon();
  look.answers = std::exchange(look.waiting, {});
}

void PortEvents::hear_up(std::uint32_t rail) {
  if (looks_.empty()) return on_port_change(rail, true);
  looks_[rail]->waiting.any = looks_[rail]->waiting.up = true;
}

void PortEvents::hear_down(std::uint32_t rail) {
  if (!looks_.empty()) {
    host_.rails()[rail].view->note_down();
    looks_[rail]->answers.up = looks_[rail]->waiting.up = false;
    looks_[rail]->waiting.any = true;  // a look under way may have seen it up
  }
  on_port_change(rail, false);
}

void PortEvents::hear_address(std::uint32_t rail) {
  if (looks_.empty()) {
    links_.on_port_up(rail);
    return;
  }
  looks_[rail]->waiting.any = looks_[rail]->waiting.address = true;
}

void PortEvents::hear_lid(std::uint32_t rail) {
  if (looks_.empty()) return on_lid_change(rail);
  looks_[rail]->waiting.any = looks_[rail]->waiting.lid = true;
}

void PortEvents::hear_speed(std::uint32_t rail) {
  if (looks_.empty()) return see_speed(rail);
  looks_[rail]->waiting.any = looks_[rail]->waiting.speed = true;
}

void PortEvents::take(std::uint32_t rail, const verbs::DeviceEvent& event) {
  const RailInfo& info = host_.rails()[rail].info;
  switch (event.kind) {
    // Each rail has a device context of its own, and each device context reports events of every
    // port.
    case verbs::DeviceEventKind::PortActive:
      if (event.port == info.port) hear_up(rail);
      return;
    case verbs::DeviceEventKind::PortError:
      if (event.port == info.port) hear_down(rail);
      return;
    case verbs::DeviceEventKind::GidChange:
      if (event.port != info.port) return;
      doubt_cables(true);
      LOG_INFO("rail {} {}: its addresses have changed", rail, info.name);
      return hear_address(rail);
    case verbs::DeviceEventKind::LidChange:
      if (event.port == info.port) hear_lid(rail);
      return;
    case verbs::DeviceEventKind::SpeedChange: return hear_speed(rail);
    case verbs::DeviceEventKind::QpFatal:
      LOG_INFO("rail {} {}: queue pair 0x{:x} has failed", rail, info.name, event.qp_num);
      return;
    case verbs::DeviceEventKind::CqError:
      LOG_INFO("rail {} {}: a completion queue has failed", rail, info.name);
      return links_.on_queue_failed(rail, event.cq);
    case verbs::DeviceEventKind::DeviceFatal: return on_card_left(rail);
    case verbs::DeviceEventKind::Other: return;
  }
}

void PortEvents::on_lid_change(std::uint32_t index) {
  const verbs::Rail& rail = host_.rails()[index];
  const std::optional<std::uint16_t> lid = verbs::current_lid(*host_.options().provider, rail);
  if (!lid) {
    LOG_WARN("rail {} {}: its new LID cannot be queried", index, rail.info.name);
    return;
  }
  LOG_INFO("rail {} {}: the LID of its port is {}", index, rail.info.name, *lid);
  links_.on_lid_change(index, *lid);
}

// A port that was down may be at another cable when it is up. A port that is down answers nothing.
void PortEvents::doubt_cables(bool up) {
  CableProofs* const cables = host_.cables();
  if (cables != nullptr) cables->doubt();
  if (!up) return;
  if (cables != nullptr) links_.ask_cables();
  if (host_.relays() != nullptr) host_.relays()->note_news();
  if (host_.neighbours() != nullptr) host_.neighbours()->listen();
}

void PortEvents::on_port_change(std::uint32_t rail, bool up) {
  doubt_cables(up);
  if (!up) ++downs_[rail];
  const bool in_use = up ? links_.on_port_up(rail) : links_.on_rail_away(rail, "our port is down");
  // The lines of the paths that are lost and back name the rail, too.
  MESH_LOG(in_use ? LogLevel::Detail : LogLevel::Info, "rail {} {}: its port is {}", rail,
           host_.rails()[rail].info.name, up ? "up" : "down");
  if (up) see_speed(rail);
}

// A bond that has lost a port, or a link that has been trained anew, may carry less than before.
void PortEvents::see_speed(std::uint32_t index) {
  const verbs::Rail& rail = host_.rails()[index];
  const verbs::PortNow now = verbs::port_now(*host_.options().provider, rail);
  if (!now.up || now.speed_mbps == 0) return;
  const std::uint32_t before = std::exchange(speeds_[index], now.speed_mbps);
  if (before == now.speed_mbps) return;
  if (before != 0) {
    MESH_LOG(now.speed_mbps < before ? LogLevel::Warn : LogLevel::Info,
             "rail {} {}: its port carries {} Gb/s now, and {} before", index, rail.info.name,
             now.speed_mbps / 1000.0, before / 1000.0);
  }
  links_.on_speed_change(index);
}

void PortEvents::on_card_left(std::uint32_t rail) {
  ++downs_[rail];
  if (!looks_.empty()) host_.rails()[rail].view->note_card_left();
  const std::string cause = verbs::card_left_text(host_.rails()[rail]);
  LOG_WARN("rail {}: {}; the device says that it has failed", rail, cause);
  away_ |= std::uint64_t{1} << rail;
  links_.on_rail_away(rail, cause);
  links_.leave_card(rail, cause, Links::Leave::All);
  host_.tend_soon();
}

void PortEvents::on_card_back(std::uint32_t rail) {
  const verbs::Rail& back = host_.rails()[rail];
  away_ &= ~(std::uint64_t{1} << rail);
  LOG_INFO("rail {} {}: a new card is in its place", rail, back.info.name);
  const int fd = host_.options().provider->event_fd(back.context.get());
  if (fd >= 0) static_cast<void>(plane_->watch(fd));
  doubt_cables(false);
  if (!looks_.empty() || verbs::port_is_up(*host_.options().provider, back)) hear_up(rail);
}

}  // namespace mesh::engine
