#include "engine/data/receive_groups.h"

#include "src/base/check.h"

#include <algorithm>
#include <utility>

namespace mesh::engine {

void ReceiveGroups::form(std::uint64_t sequence, std::uint32_t count) noexcept {
  DCHECK(count > 1 && count <= kGroupMax && count <= ring_.size());
  for (std::uint32_t i = 0; i < count; ++i) {
    Request& member = at(sequence + i);
    DCHECK(member.state.load(std::memory_order_relaxed) == RequestState::Free);
    places_[index_of(member)] = {.offset = static_cast<std::uint8_t>(i)};
    // acquired where regions are looked for, as in Channel::publish()
    member.state.store(i == 0 ? RequestState::Group : RequestState::Member,
                       std::memory_order_release);
  }
  Place& first = places_[index_of(at(sequence))];
  first.count = first.open = static_cast<std::uint8_t>(count);
}

void ReceiveGroups::dissolve(Request& first, std::span<std::size_t> bytes) noexcept {
  const std::size_t index = index_of(first);
  const std::uint32_t count = std::exchange(places_[index].count, std::uint8_t{0});
  DCHECK(count > 1);
  first.error = Errc::Ok;
  for (std::uint32_t i = 0; i < count; ++i) {
    Request& member = at(index + i);
    if (i < bytes.size()) bytes[i] = member.bytes;
    member.state.store(RequestState::Free, std::memory_order_relaxed);
  }
}

// The first one's state says that all are there, so it changes last.
void ReceiveGroups::land(Request& member, std::uint64_t bytes, Errc why) noexcept {
  const RequestState state = member.state.load(std::memory_order_relaxed);
  if (state != RequestState::Group && state != RequestState::Member) return;
  const std::size_t index = index_of(member);
  Request& first = at(index - places_[index].offset);
  DCHECK(bytes <= member.bytes);
  member.bytes = bytes;
  if (why != Errc::Ok) first.error = why;
  if (state == RequestState::Member)
    member.state.store(RequestState::Gathered, std::memory_order_release);
  Place& place = places_[index_of(first)];
  DCHECK(place.open != 0);
  if (--place.open != 0) return;
  DCHECK(first.state.load(std::memory_order_relaxed) == RequestState::Group);
  first.state.store(first.error == Errc::Ok ? RequestState::Gathered : RequestState::Failed,
                    std::memory_order_release);
}

}  // namespace mesh::engine
