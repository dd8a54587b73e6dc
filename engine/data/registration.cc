#include "engine/data/registration.h"

#include "engine/data/lane.h"
#include "src/base/check.h"
#include "src/base/log.h"

#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

namespace mesh::engine {

namespace {
// Nobody reads our memory, because data is written.
constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;

// The flag is one of those that a provider drops where it cannot have them.
int access_with(const Settings& settings) noexcept {
  return settings.relaxed_ordering == 0 ? kAccess
                                        : kAccess | static_cast<int>(IBV_ACCESS_RELAXED_ORDERING);
}
}  // namespace

RegistrationTable::RegistrationTable(std::vector<Lane*> lanes, const Settings& settings)
    : lanes_(std::move(lanes)), access_(access_with(settings)) {}

Status RegistrationTable::add_rail(Registration& entry, std::uint32_t rail) {
  DCHECK(rail < lanes_.size());
  DCHECK((entry.count_by_rail[rail] != 0) == static_cast<bool>(entry.mr_by_rail[rail]));
  if (entry.count_by_rail[rail] == 0) {
    Lane& lane = *lanes_[rail];
    verbs::MrHandle mr =
        lane.register_range(reinterpret_cast<void*>(entry.address), entry.bytes, access_);
    if (!mr) {
      LOG_WARN(
          "cannot register {} bytes at {:#x} on {}: {} (memory pinning limit, see ulimit -l and "
          "CMA size)",
          entry.bytes, entry.address, lane.name(), std::strerror(errno));
      return Errc::System;
    }
    entry.keys_by_rail[rail] = {.lkey = mr->lkey, .rkey = mr->rkey};
    entry.mr_by_rail[rail] = std::move(mr);
  }
  ++entry.count_by_rail[rail];
  return {};
}

Result<Registration*> RegistrationTable::acquire(const SendArgs& range, MemoryType type,
                                                 std::span<const std::uint32_t> rails) {
  const std::lock_guard lock(mutex_);
  const Key key{reinterpret_cast<std::uint64_t>(range.data), range.bytes, type};
  auto found = entries_.find(key);
  if (found == entries_.end()) found = entries_.emplace(key, make_entry(range, type)).first;
  Registration& entry = *found->second;
  ++entry.count;
  std::size_t added = 0;
  Status status;
  try {
    while (added < rails.size() && status.ok()) {
      status = add_rail(entry, rails[added]);
      if (status.ok()) ++added;
    }
  } catch (const std::bad_alloc&) {  // the provider's
    LOG_WARN("cannot register {} bytes: no memory is left", range.bytes);
    status = Errc::System;
  }
  if (status.ok()) return &entry;
  // Give back what this call took, and the entry with it when it was new.
  for (const std::uint32_t rail : rails.first(added)) {
    DCHECK(entry.count_by_rail[rail] != 0);
    if (--entry.count_by_rail[rail] == 0) entry.mr_by_rail[rail].reset();
  }
  if (--entry.count == 0) entries_.erase(found);
  return status;
}

std::unique_ptr<Registration> RegistrationTable::make_entry(const SendArgs& range,
                                                            MemoryType type) const {
  auto entry = std::make_unique<Registration>();
  entry->address = reinterpret_cast<std::uint64_t>(range.data);
  entry->bytes = range.bytes;
  entry->type = type;
  DCHECK(!lanes_.empty());
  entry->keys_by_rail.resize(lanes_.size());
  entry->count_by_rail.resize(lanes_.size());
  entry->mr_by_rail.resize(lanes_.size());
  return entry;
}

void RegistrationTable::release(Registration* registration,
                                std::span<const std::uint32_t> rails) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found =
      entries_.find({registration->address, registration->bytes, registration->type});
  CHECK(found != entries_.end() && found->second.get() == registration && registration->count > 0);
  for (const std::uint32_t rail : rails) {
    CHECK(registration->count_by_rail[rail] > 0);
    if (--registration->count_by_rail[rail] == 0) registration->mr_by_rail[rail].reset();
  }
  if (--registration->count == 0) entries_.erase(found);
}

void RegistrationTable::clear() noexcept {
  const std::lock_guard lock(mutex_);
  entries_.clear();
}

std::size_t RegistrationTable::size() const {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

}  // namespace mesh::engine
