// Memory that is made ready for a rail before anybody uses it there.
#include "engine/data/registration.h"
#include "src/base/check.h"
#include "src/verbs/discovery.h"

#include <array>
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

bool RegistrationTable::is_on(const Registration& registration, std::uint32_t rail) const {
  const std::lock_guard lock(mutex_);
  return static_cast<bool>(registration.mr_by_rail[rail]);
}

}  // namespace mesh::engine
