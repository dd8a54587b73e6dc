// What devices say by themselves: the control thread wakes for it, so that a pulled cable is known
// long before the retries of whoever posts to it have run out.

#include "engine/engine_impl.h"
#include "src/base/log.h"

namespace mesh::engine {

namespace {
constexpr int kEventsPerPass = 64;  // of one rail; the rest makes its descriptor readable again
}

// A rail whose device cannot be watched is told of trouble by its completions only.
void EngineImpl::watch_devices() {
  for (const verbs::Rail& rail : rails_) {
    const int fd = options_.provider->event_fd(rail.context.get());
    if (fd >= 0) static_cast<void>(plane_->watch(fd));
  }
}

void EngineImpl::on_readable(int fd) {
  for (std::uint32_t i = 0; i < rails_.size(); ++i) {
    ibv_context* const context = rails_[i].context.get();
    if (options_.provider->event_fd(context) != fd) continue;
    verbs::DeviceEvent event;
    for (int taken = 0; taken < kEventsPerPass && options_.provider->next_event(context, &event);
         ++taken)
      on_device_event(i, event);
  }
}

void EngineImpl::on_device_event(std::uint32_t rail, const verbs::DeviceEvent& event) {
  const RailInfo& info = rails_[rail].info;
  switch (event.kind) {
    case verbs::DeviceEventKind::PortActive:
    case verbs::DeviceEventKind::PortError:
      // Each rail has a context of its own, and each context hears of every port.
      if (event.port == info.port)
        on_port_change(rail, event.kind == verbs::DeviceEventKind::PortActive);
      return;
    case verbs::DeviceEventKind::GidChange:
      if (event.port == info.port)
        LOG_INFO("rail {} {}: its addresses have changed", rail, info.name);
      return;
    case verbs::DeviceEventKind::QpFatal:
      LOG_INFO("rail {} {}: queue pair 0x{:x} has failed", rail, info.name, event.qp_num);
      return;
    case verbs::DeviceEventKind::DeviceFatal:
      LOG_WARN("rail {} {}: the device has failed", rail, info.name);
      on_port_change(rail, false);
      return;
    case verbs::DeviceEventKind::Other: return;
  }
}

// A path over a port that is down is left at once: its peer, at the other end of the cable, does
// the same, and what was under way goes over other paths without a single retry. A port that is up
// is tried at once, whatever pause was due.
void EngineImpl::on_port_change(std::uint32_t rail, bool up) {
  LOG_INFO("rail {} {}: its port is {}", rail, rails_[rail].info.name, up ? "up" : "down");
  for (const auto& context : contexts_) {
    for (const auto& link : context->links) {
      if (!link->has_peer_link() || link->state() != LinkState::Up) continue;
      const ProgressLoop::Guard guard(context->loop);
      for (std::uint32_t i = 0; i < link->peer_link().path_count(); ++i) {
        Path& path = link->peer_link().path(i);
        if (path.rail != rail) continue;
        if (!up) link->peer_link().quarantine(path, "its port is down");
        const bool waits = path.health.state == PathState::Down &&
                           link->repairs[i].step == PathRepair::Step::Waiting;
        if (up && waits) link->repairs[i].at_ns = clock_.now_ns();
      }
    }
  }
}

}  // namespace mesh::engine
