// Memory that NCCL registers and deregisters.
#include "engine/data/flusher.h"
#include "engine/data/registration.h"
#include "engine/engine_impl.h"
#include "engine/link/link.h"
#include "src/base/log.h"

#include <cstddef>
#include <cstdint>
#include <new>
#include <span>

namespace mesh::engine {

namespace {
// Puts memory on all of these rails, or on none.
Status extend_all(RegistrationTable& table, Registration& registration,
                  std::span<const std::uint32_t> rails) {
  for (std::size_t added = 0; added < rails.size(); ++added) {
    const Status status = table.extend(registration, rails[added], 1);
    if (status.ok()) continue;
    for (const std::uint32_t rail : rails.first(added)) table.retract(registration, rail, 1);
    return status;
  }
  return {};
}
}  // namespace

Result<Registration*> EngineImpl::register_memory(Channel& channel, const MemoryRange& range) {
  Lock lock(mutex_);
  if (range.type == MemoryType::Device) channel.loop.flusher->note_ports(channel.loop.devices);
  Link& link = links_.of_channel(channel);
  link.touch();
  RegistrationTable& table = *link.context().registrations;
  RailSet rails(channel.link.paths().rails());
  lock.unlock();  // pinning gigabytes takes time
  const Result<Registration*> registration = table.acquire(range, rails.span());
  if (!registration.ok()) return registration;
  Status status;
  for (;;) {
    lock.lock();
    const RailSet now(channel.link.paths().rails());
    const RailSet more = rails.missing_of(now.span());  // a standby path was opened
    if (!status.ok()) break;
    if (more.span().empty()) {
      const RailSet left = now.missing_of(rails.span());  // they rest meanwhile
      for (const std::uint32_t rail : left.span()) table.rest(**registration, rail, 1);
      rails = now;
      break;
    }
    lock.unlock();
    status = extend_all(table, **registration, more.span());
    if (status.ok()) rails = now;
  }
  try {
    if (status.ok()) ++channel.regions[registration.value()];
  } catch (const std::bad_alloc&) {
    status = Errc::System;
    LOG_WARN("regMr of {} bytes: out of memory for the channel's list of regions", range.bytes);
  }
  if (status.ok()) return registration;
  lock.unlock();
  table.release(registration.value(), rails.span());
  return status;
}

void EngineImpl::deregister_memory(Channel& channel, Registration& registration) noexcept {
  Lock lock(mutex_);
  Link& link = links_.of_channel(channel);
  link.touch();
  auto uses = channel.regions.find(&registration);
  // The channel may have registered this range more than once; only its last deregistration takes
  // it back. Until then the range belongs to the channel: a standby path that is opened needs it.
  if (uses != channel.regions.end() && uses->second == 1) {
    link.farewell().take_back(channel, registration,
                              [this, &lock](std::uint64_t bound_ns, const auto& done) {
                                return wait_for(lock, bound_ns, done);
                              });
    uses = channel.regions.find(&registration);  // another call may have come during the wait
  }
  if (uses == channel.regions.end()) {
    LOG_WARN(
        "peer {}: deregMr of a memory handle that was not registered through channel {}; it is "
        "ignored",
        link.identity().peer_host, channel.index);
    return;
  }
  if (--uses->second == 0) {
    channel.regions.erase(uses);
    if (registration.type == MemoryType::Device)
      channel.loop.flusher->forget(channel, registration);
  }
  RegistrationTable& table = *link.context().registrations;
  const RailSet rails(channel.link.paths().rails());
  lock.unlock();  // a device may take seconds; the caller keeps channel and communicator until then
  table.release(&registration, rails.span());
}

}  // namespace mesh::engine
