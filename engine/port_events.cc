// What devices say by themselves: the control thread wakes for it, so that a pulled cable is known long before the retries of
// whoever posts to it have run out.

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
    for (int taken = 0; taken < kEventsPerPass && options_.provider->next_event(context, &event); ++taken)
      on_device_event(i, event);
  }
}

void EngineImpl::on_device_event(std::uint32_t rail, const verbs::DeviceEvent& event) {
  const RailInfo& info = rails_[rail].info;
  switch (event.kind) {
    case verbs::DeviceEventKind::PortActive:
    case verbs::DeviceEventKind::PortError:
      // Each rail has a context of its own, and each context hears of every port.
      if (event.port == info.port) on_port_change(rail, event.kind == verbs::DeviceEventKind::PortActive);
      return;
    case verbs::DeviceEventKind::GidChange:
      if (event.port == info.port) LOG_INFO("rail {} {}: its addresses have changed", rail, info.name);
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

void EngineImpl::on_port_change(std::uint32_t rail, bool up) {
  LOG_INFO("rail {} {}: its port is {}", rail, rails_[rail].info.name, up ? "up" : "down");
}

}  // namespace mesh::engine
