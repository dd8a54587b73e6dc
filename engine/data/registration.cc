#include "engine/data/registration.h"

#include "engine/data/device_context.h"
#include "engine/data/dma_buffer.h"
#include "engine/data/flusher.h"
#include "src/base/check.h"
#include "src/base/log.h"
#include "src/verbs/discovery.h"
#include "src/verbs/memory_hint.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

namespace mesh::engine {

namespace {
// No peer reads our memory, because data is written.
constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;

// A provider drops this optional flag where it cannot have it.
int access_with(const Settings& settings) noexcept {
  return settings.relaxed_ordering == 0 ? kAccess
                                        : kAccess | static_cast<int>(IBV_ACCESS_RELAXED_ORDERING);
}

void tell_refusal(const Registration& entry, const std::string& rail, int error) {
  if (entry.type == MemoryType::Device) return tell_device_refusal(entry, rail, error);
  LOG_WARN("cannot register {} bytes at {:#x} on {}: {}{}", entry.bytes, entry.address, rail,
           std::strerror(error), verbs::memory_hint(error));
}
}  // namespace

RegistrationTable::RegistrationTable(std::vector<DeviceContext*> devices, const Settings& settings,
                                     std::uint32_t inline_bytes)
    : devices_(std::move(devices)), access_(access_with(settings)), inline_bytes_(inline_bytes) {}

void RegistrationTable::lower_inline_bytes(std::uint32_t inline_bytes) noexcept {
  const std::lock_guard lock(mutex_);
  inline_bytes_ = std::min(inline_bytes_, inline_bytes);
  for (const auto& [key, entry] : entries_)
    entry->inline_bytes = std::min(entry->inline_bytes, inline_bytes_);
}

verbs::MrHandle RegistrationTable::make_there(const Registration& entry, std::uint32_t rail,
                                              int* error) {
  DeviceContext& device = *devices_[rail];
  verbs::MrHandle made;
  *error = ENOMEM;
  try {
    if (entry.type == MemoryType::Device && flusher_ != nullptr) flusher_->provide(device);
    made = make_region(entry, device);
    *error = errno;
  } catch (const std::bad_alloc&) {  // thrown by the provider
  }
  return made;
}

Status RegistrationTable::add_rail(Lock& lock, Registration& entry, std::uint32_t rail) {
  DCHECK(rail < devices_.size());
  no_longer_busy_.wait(lock, [&] { return !entry.busy_by_rail[rail]; });
  DeviceContext& device = *devices_[rail];
  if (!entry.mr_by_rail[rail] && !device.gate.closed()) {
    if (entry.type == MemoryType::Device && !takes_device_memory(entry, device.rail().info))
      return Errc::System;
    entry.busy_by_rail[rail] = true;
    lock.unlock();
    int error = 0;
    verbs::MrHandle mr = make_there(entry, rail, &error);
    lock.lock();
    entry.busy_by_rail[rail] = false;
    no_longer_busy_.notify_all();
    if (mr) {
      entry.keys_by_rail[rail] = {.lkey = mr->lkey, .rkey = mr->rkey};
      entry.mr_by_rail[rail] = std::move(mr);
    } else if (!device.gate.closed()) {
      tell_refusal(entry, device.name(), error);
      return Errc::System;
    }
  }
  ++entry.count_by_rail[rail];
  return {};
}

Result<Registration*> RegistrationTable::acquire(const MemoryRange& range,
                                                 std::span<const std::uint32_t> rails) {
  Lock lock(mutex_);
  const Key key{reinterpret_cast<std::uint64_t>(range.data), range.bytes, range.type};
  auto found = entries_.find(key);
  if (found == entries_.end()) {
    std::unique_ptr<Registration> made = make_entry(range);
    if (const Status kept = keep_buffer(range, *made); !kept.ok()) return kept;
    found = entries_.emplace(key, std::move(made)).first;
  } else if (found->second->count == 0) {
    // Only a hold has kept it: the address may belong to other memory by now.
    if (const Status kept = keep_buffer(range, *found->second); !kept.ok()) return kept;
  }
  Registration& entry = *found->second;
  ++entry.count;  // it stays, whoever else gives it back meanwhile
  std::size_t added = 0;
  for (Status status; added < rails.size(); ++added) {
    status = add_rail(lock, entry, rails[added]);
    if (status.ok()) continue;
    give_up(lock, found, rails.first(added));
    return status;
  }
  return &entry;
}

verbs::MrHandle RegistrationTable::make_region(const Registration& entry,
                                               DeviceContext& device) const {
  // Flushes read device memory, over queue pairs of our own.
  const int access = entry.type == MemoryType::Device ? access_ | IBV_ACCESS_REMOTE_READ : access_;
  if (entry.buffer.valid()) return device.register_buffer(entry.buffer_range, access);
  return device.register_range(reinterpret_cast<void*>(entry.address), entry.bytes, access);
}

std::unique_ptr<Registration> RegistrationTable::make_entry(const MemoryRange& range) const {
  auto entry = std::make_unique<Registration>();
  entry->address = reinterpret_cast<std::uint64_t>(range.data);
  entry->bytes = range.bytes;
  entry->type = range.type;
  entry->inline_bytes = range.type == MemoryType::Device ? 0 : inline_bytes_;
  DCHECK(!devices_.empty());
  entry->keys_by_rail.resize(devices_.size());
  entry->count_by_rail.resize(devices_.size());
  entry->mr_by_rail.resize(devices_.size());
  entry->held_by_rail.resize(devices_.size());
  entry->busy_by_rail.resize(devices_.size());
  return entry;
}

void RegistrationTable::release(Registration* registration,
                                std::span<const std::uint32_t> rails) noexcept {
  Lock lock(mutex_);
  give_up(lock, find(*registration), rails);
}

RegistrationTable::Entries::iterator RegistrationTable::find(
    const Registration& registration) noexcept {
  const auto found = entries_.find({registration.address, registration.bytes, registration.type});
  CHECK(found != entries_.end() && found->second.get() == &registration);
  return found;
}

bool RegistrationTable::is_busy(const Registration& entry) const noexcept {
  return std::count(entry.busy_by_rail.begin(), entry.busy_by_rail.end(), true) != 0;
}

void RegistrationTable::give_up(Lock& lock, Entries::iterator at,
                                std::span<const std::uint32_t> rails) noexcept {
  Registration& entry = *at->second;
  CHECK(entry.count > 0);
  std::array<verbs::MrHandle, verbs::kRailsMax> gone;  // the call must not ask for memory
  const auto take = [&](std::uint32_t rail, std::uint32_t uses) {
    CHECK(entry.count_by_rail[rail] >= uses);
    entry.count_by_rail[rail] -= uses;
    if (entry.count_by_rail[rail] == 0) gone[rail] = std::move(entry.mr_by_rail[rail]);
  };
  // The last use waits for what is being prepared, and takes it along.
  if (entry.count == 1 && entry.holds != 0)
    no_longer_busy_.wait(lock, [&] { return entry.count != 1 || !is_busy(entry); });
  for (const std::uint32_t rail : rails) take(rail, 1);
  --entry.count;
  for (std::uint32_t rail = 0; entry.count == 0 && rail < devices_.size(); ++rail) {
    const std::uint32_t held = std::exchange(entry.held_by_rail[rail], 0);
    if (held != 0) take(rail, held);
  }
  Entries::node_type without_users;
  if (entry.count == 0 && entry.holds == 0) without_users = entries_.extract(at);
  lock.unlock();
}

Status RegistrationTable::extend(Registration& registration, std::uint32_t rail,
                                 std::uint32_t uses) {
  DCHECK(uses != 0);
  Lock lock(mutex_);
  if (const Status status = add_rail(lock, registration, rail); !status.ok()) return status;
  registration.count_by_rail[rail] += uses - 1;
  return {};
}

void RegistrationTable::retract(Registration& registration, std::uint32_t rail,
                                std::uint32_t uses) noexcept {
  verbs::MrHandle gone;  // outlives the lock
  const Lock lock(mutex_);
  CHECK(registration.count_by_rail[rail] >= uses);
  registration.count_by_rail[rail] -= uses;
  if (registration.count_by_rail[rail] == 0) gone = std::move(registration.mr_by_rail[rail]);
}

// Keeps an entry that is held, so that its holder can drop it. A held entry that nobody uses has no
// regions.
void RegistrationTable::clear() noexcept {
  Entries gone;  // outlives the lock
  Lock lock(mutex_);
  for (;;) {
    const auto at = std::find_if(entries_.begin(), entries_.end(), [](const auto& each) {
      return each.second->holds == 0 || each.second->count != 0;
    });
    if (at == entries_.end()) return;
    Registration& entry = *at->second;
    no_longer_busy_.wait(lock, [&] { return !is_busy(entry); });
    if (entry.holds == 0) {
      gone.insert(entries_.extract(at));
      continue;
    }
    std::array<verbs::MrHandle, verbs::kRailsMax> regions;  // the call must not ask for memory
    std::move(entry.mr_by_rail.begin(), entry.mr_by_rail.end(), regions.begin());
    entry.count = 0;
    std::fill(entry.count_by_rail.begin(), entry.count_by_rail.end(), 0);
    std::fill(entry.held_by_rail.begin(), entry.held_by_rail.end(), 0);
    lock.unlock();  // the holder, who has locks that others need, may ask for the table
    for (verbs::MrHandle& region : regions) region.reset();
    lock.lock();
  }
}

std::size_t RegistrationTable::size() const {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

}  // namespace mesh::engine
