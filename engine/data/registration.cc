#include "engine/data/registration.h"

#include "engine/data/lane.h"
#include "src/base/check.h"
#include "src/base/log.h"

#include <array>
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

Status RegistrationTable::add_rail(Lock& lock, Registration& entry, std::uint32_t rail) {
  DCHECK(rail < lanes_.size());
  no_longer_busy_.wait(lock, [&] { return !entry.busy_by_rail[rail]; });
  DCHECK((entry.count_by_rail[rail] != 0) == static_cast<bool>(entry.mr_by_rail[rail]));
  if (entry.count_by_rail[rail] == 0) {
    Lane& lane = *lanes_[rail];
    entry.busy_by_rail[rail] = true;
    lock.unlock();
    verbs::MrHandle mr;
    int error = ENOMEM;
    try {
      mr = lane.register_range(reinterpret_cast<void*>(entry.address), entry.bytes, access_);
      error = errno;
    } catch (const std::bad_alloc&) {  // the provider's
    }
    lock.lock();
    entry.busy_by_rail[rail] = false;
    no_longer_busy_.notify_all();
    if (!mr) {
      LOG_WARN(
          "cannot register {} bytes at {:#x} on {}: {} (memory pinning limit, see ulimit -l and "
          "CMA size)",
          entry.bytes, entry.address, lane.name(), std::strerror(error));
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
  Lock lock(mutex_);
  const Key key{reinterpret_cast<std::uint64_t>(range.data), range.bytes, type};
  auto found = entries_.find(key);
  if (found == entries_.end()) found = entries_.emplace(key, make_entry(range, type)).first;
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
  entry->busy_by_rail.resize(lanes_.size());
  return entry;
}

void RegistrationTable::release(Registration* registration,
                                std::span<const std::uint32_t> rails) noexcept {
  Lock lock(mutex_);
  const auto found =
      entries_.find({registration->address, registration->bytes, registration->type});
  CHECK(found != entries_.end() && found->second.get() == registration);
  give_up(lock, found, rails);
}

void RegistrationTable::give_up(Lock& lock, Entries::iterator at,
                                std::span<const std::uint32_t> rails) noexcept {
  Registration& entry = *at->second;
  CHECK(entry.count > 0 && rails.size() <= kPathsMax);
  std::array<verbs::MrHandle, kPathsMax> gone;  // the call must not ask for memory
  for (std::size_t i = 0; i < rails.size(); ++i) {
    CHECK(entry.count_by_rail[rails[i]] > 0);
    if (--entry.count_by_rail[rails[i]] == 0) gone[i] = std::move(entry.mr_by_rail[rails[i]]);
  }
  Entries::node_type without_users;
  if (--entry.count == 0) without_users = entries_.extract(at);
  lock.unlock();
}

void RegistrationTable::clear() noexcept {
  Entries all;
  const Lock lock(mutex_);
  all.swap(entries_);  // outlives the lock
}

std::size_t RegistrationTable::size() const {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

}  // namespace mesh::engine
