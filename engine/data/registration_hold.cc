// Memory that is made ready for a rail before anybody uses it there.
#include "engine/data/device_context.h"
#include "engine/data/progress_loop.h"
#include "engine/data/registration.h"
#include "src/base/check.h"
#include "src/base/log.h"
#include "src/verbs/discovery.h"
#include "src/verbs/memory_hint.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace mesh::engine {

void RegistrationTable::hold(Registration& registration) noexcept {
  const Lock lock(mutex_);
  CHECK(registration.count > 0);
  ++registration.holds;
}

Status RegistrationTable::prepare(Registration& registration, std::uint32_t rail) {
  Lock lock(mutex_);
  // Another link's thread may be registering it, and its last use may end meanwhile.
  no_longer_busy_.wait(lock, [&] { return !registration.busy_by_rail[rail]; });
  if (registration.count == 0) return {};
  const CallWatch::Call waits(devices_[rail]->calls, devices_[rail]->name(), "ibv_reg_mr");
  if (const Status status = add_rail(lock, registration, rail); !status.ok()) return status;
  DCHECK(registration.count != 0);  // the last use waits for us
  ++registration.held_by_rail[rail];
  return {};
}

void RegistrationTable::drop(Registration& registration,
                             std::span<const std::uint32_t> rails) noexcept {
  std::array<verbs::MrHandle, verbs::kRailsMax> gone;  // outlive the lock
  Entries::node_type without_users;
  const Lock lock(mutex_);
  CHECK(registration.holds > 0);
  for (const std::uint32_t rail : rails) {
    if (registration.held_by_rail[rail] == 0) continue;  // it went with the last use
    --registration.held_by_rail[rail];
    if (--registration.count_by_rail[rail] == 0)
      gone[rail] = std::move(registration.mr_by_rail[rail]);
  }
  if (--registration.holds == 0 && registration.count == 0)
    without_users = entries_.extract(find(registration));
}

// The last use takes along what nobody else needs (give_up).
void RegistrationTable::leave(Registration& registration,
                              std::span<const std::uint32_t> rails) noexcept {
  Entries::node_type without_users;  // outlives the lock
  const Lock lock(mutex_);
  CHECK(registration.holds > 0);
  for (const std::uint32_t rail : rails) {
    if (registration.held_by_rail[rail] == 0 || registration.count_by_rail[rail] == 1) continue;
    --registration.held_by_rail[rail];
    --registration.count_by_rail[rail];
  }
  if (--registration.holds == 0 && registration.count == 0)
    without_users = entries_.extract(find(registration));
}

void RegistrationTable::rest(Registration& registration, std::uint32_t rail,
                             std::uint32_t uses) noexcept {
  const Lock lock(mutex_);
  CHECK(registration.count_by_rail[rail] >= uses);
  registration.count_by_rail[rail] -= uses;
  if (registration.count_by_rail[rail] != 0) return;
  registration.count_by_rail[rail] = registration.held_by_rail[rail] = 1;
}

bool RegistrationTable::is_there(const Registration& entry, std::uint32_t rail) const noexcept {
  return entry.mr_by_rail[rail] || devices_[rail]->gate.closed();
}

bool RegistrationTable::is_on(const Registration& registration, std::uint32_t rail) const {
  const std::lock_guard lock(mutex_);
  return is_there(registration, rail);
}

Status RegistrationTable::use(Registration& registration, std::uint32_t rail, std::uint32_t uses) {
  const std::lock_guard lock(mutex_);
  if (!is_there(registration, rail)) return Errc::WouldBlock;
  registration.count_by_rail[rail] += uses;
  return {};
}

// ---- A new card in the place of one that has left.

RegistrationTable::Entries::iterator RegistrationTable::without_region(
    std::uint32_t rail) noexcept {
  return std::find_if(entries_.begin(), entries_.end(), [rail](const auto& each) {
    const Registration& entry = *each.second;
    return entry.count_by_rail[rail] != 0 && !entry.mr_by_rail[rail];
  });
}

Status RegistrationTable::renew(std::uint32_t rail, ProgressLoop& loop,
                                std::vector<verbs::MrHandle>* former) {
  Lock lock(mutex_);
  for (const auto& [key, entry] : entries_) {
    no_longer_busy_.wait(lock, [&each = *entry, rail] { return !each.busy_by_rail[rail]; });
    if (entry->mr_by_rail[rail]) former->push_back(std::move(entry->mr_by_rail[rail]));
  }
  for (auto at = without_region(rail); at != entries_.end(); at = without_region(rail)) {
    Registration& entry = *at->second;
    entry.busy_by_rail[rail] = true;
    ++entry.holds;  // its last use waits for us, and leaves the entry
    lock.unlock();
    int error = 0;
    verbs::MrHandle made = make_there(entry, rail, &error);
    const bool refused = !made;
    const std::uint64_t bytes = entry.bytes, address = entry.address;
    {
      const ProgressLoop::Guard guard(loop);
      lock.lock();
      if (made) entry.keys_by_rail[rail] = {.lkey = made->lkey, .rkey = made->rkey};
      if (made) entry.mr_by_rail[rail] = std::move(made);
      entry.busy_by_rail[rail] = false;
      --entry.holds;
      no_longer_busy_.notify_all();
      lock.unlock();
    }
    if (refused) {
      LOG_WARN("{}: the new card does not register {} bytes at {:#x}: {}{}", devices_[rail]->name(),
               bytes, address, std::strerror(error), verbs::memory_hint(error));
      return Errc::System;
    }
    lock.lock();
  }
  devices_[rail]->gate.open();  // whoever looks there next under the mutex registers for himself
  return {};
}

}  // namespace mesh::engine
