#include "engine/registration.h"

#include "engine/lane.h"
#include "src/base/check.h"
#include "src/base/log.h"

#include <cerrno>
#include <cstring>

namespace mesh::engine {

namespace {
constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;  // nobody reads our memory: data is written
}

Status RegistrationTable::add_rail(Registration& entry, std::uint32_t rail) {
  if (entry.count_by_rail[rail] == 0) {
    Lane& lane = *lanes_[rail];
    verbs::MrHandle mr = lane.register_range(reinterpret_cast<void*>(entry.address), entry.bytes, kAccess);
    if (!mr) {
      LOG_WARN("cannot register {} bytes at {:#x} on {}: {} (memory pinning limit, see ulimit -l and CMA size)", entry.bytes,
               entry.address, lane.name(), std::strerror(errno));
      return Errc::System;
    }
    entry.keys_by_rail[rail] = {.lkey = mr->lkey, .rkey = mr->rkey};
    entry.mr_by_rail[rail] = std::move(mr);
  }
  ++entry.count_by_rail[rail];
  return {};
}

Result<Registration*> RegistrationTable::acquire(const SendArgs& range, MemoryType type, std::span<const std::uint32_t> rails) {
  const std::lock_guard lock(mutex_);
  const Key key{reinterpret_cast<std::uint64_t>(range.data), range.bytes, type};
  std::unique_ptr<Registration>& entry = entries_[key];
  if (!entry) {
    entry = std::make_unique<Registration>();
    entry->address = std::get<0>(key);
    entry->bytes = range.bytes;
    entry->type = type;
    entry->keys_by_rail.resize(lanes_.size());
    entry->count_by_rail.resize(lanes_.size());
    entry->mr_by_rail.resize(lanes_.size());
  }
  ++entry->count;
  for (std::size_t i = 0; i < rails.size(); ++i) {
    if (const Status status = add_rail(*entry, rails[i]); !status.ok()) {
      // Give back what this call took, and the entry with it when it was new.
      for (std::size_t j = 0; j < i; ++j) {
        if (--entry->count_by_rail[rails[j]] == 0) entry->mr_by_rail[rails[j]].reset();
      }
      if (--entry->count == 0) entries_.erase(key);
      return status;
    }
  }
  return entry.get();
}

void RegistrationTable::release(Registration* registration, std::span<const std::uint32_t> rails) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find({registration->address, registration->bytes, registration->type});
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
