#pragma once
// Knows which receives of a channel were started together as a group. Its members lie in
// neighbouring slots and are credits like any others; the first one's request is done when every
// member has its message. Thread: NCCL's forms and dissolves a group, the loop (progress lock) does
// the rest in between. Bound: kGroupMax members.

#include <mesh/channel.h>
#include <mesh/status.h>

#include "engine/data/request.h"
#include "src/base/check.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <utility>

namespace mesh::engine {

class ReceiveGroups {
 public:
  // ring: the channel's requests, which outlive this.
  explicit ReceiveGroups(std::span<Request> ring)
      : ring_(ring), counts_(std::make_unique<std::uint8_t[]>(ring.size())) {}

  // ---- NCCL's thread, before the requests are published. join() makes a filled slot a member,
  // with offset 0 for the first one; then form() forms the group.
  static void join(Request& slot, std::size_t offset) noexcept {
    slot.offset = static_cast<std::uint8_t>(offset);
    join(slot);
  }
  static void join(Request& slot) noexcept {
    DCHECK(slot.state.load(std::memory_order_relaxed) == RequestState::Free);
    // acquired where regions are looked for, as in Channel::publish()
    slot.state.store(RequestState::Member, std::memory_order_release);
  }
  static void leave(Request& slot) noexcept {
    slot.state.store(RequestState::Free, std::memory_order_relaxed);
  }
  void form(Request& first, std::size_t count) noexcept {
    DCHECK(count > 1 && count <= kGroupMax && count <= ring_.size());
    counts_[index_of(first)] = first.open_members = static_cast<std::uint8_t>(count);
    first.state.store(RequestState::Group, std::memory_order_release);
  }
  // Returns the number of members if the request is a group's first one, else 0.
  std::uint32_t count_of(const Request& request) const noexcept {
    return counts_[index_of(request)];
  }
  // NCCL's thread, when the first one is Gathered, or has Failed and that was taken back. Frees the
  // slots; bytes receives the size of each member's message, as far as there is room.
  template <typename Size>
  void dissolve(Request& first, std::span<Size> bytes) noexcept;

  // ---- Loop.
  static bool is_open_member(const Request& request) noexcept {
    const RequestState state = request.state.load(std::memory_order_relaxed);
    return state == RequestState::Group || state == RequestState::Member;
  }
  Request& first_of(const Request& member) const noexcept {
    const std::size_t index = index_of(member);
    return ring_[member.offset <= index ? index - member.offset
                                        : index + ring_.size() - member.offset];
  }
  // Returns the first member of an open group for which `holds` is true, or null.
  template <typename Holds>
  const Request* find_member(const Request& first, Holds&& holds) const noexcept {
    DCHECK(first.state.load(std::memory_order_relaxed) == RequestState::Group);
    const std::size_t index = index_of(first);
    for (std::size_t i = 0; i < counts_[index]; ++i) {
      const Request& member = ring_[(index + i) & (ring_.size() - 1)];
      if (holds(member)) return &member;
    }
    return nullptr;
  }
  // The members of a group that lie in consecutive slots, from the first one on. Empty if the
  // ring's end lies between the given member and the first one.
  struct Row {
    Request* first = nullptr;
    std::size_t count = 0;
  };
  Row row_of(const Request& member) const noexcept {
    const std::size_t index = index_of(member);
    if (member.offset > index) [[unlikely]]
      return {};
    const std::size_t first = index - member.offset;
    return {.first = &ring_[first],
            .count = std::min<std::size_t>(counts_[first], ring_.size() - first)};
  }
  // Notes that this many members of an open group have their messages. The first one's state says
  // that all have, so it changes last.
  static void land(Request& first, std::uint32_t members) noexcept {
    DCHECK(first.state.load(std::memory_order_relaxed) == RequestState::Group);
    DCHECK(members <= first.open_members);
    first.open_members = static_cast<std::uint8_t>(first.open_members - members);
    if (first.open_members != 0) return;
    first.state.store(first.error == Errc::Ok ? RequestState::Gathered : RequestState::Failed,
                      std::memory_order_release);
  }

 private:
  template <typename Size>
  [[gnu::noinline]] void dissolve_apart(std::size_t index, std::size_t count,
                                        std::span<Size> bytes) noexcept;
  template <typename Size>
  [[gnu::always_inline]] static std::uint64_t free_member(Request& member, Size* bytes) noexcept {
    const std::uint64_t got = member.bytes;
    *bytes = static_cast<Size>(got);
    leave(member);
    return got;
  }
  template <typename Size>
  static std::uint64_t free_members(Request* members, std::size_t count, Size* bytes) noexcept;
  template <typename Size>
  [[gnu::cold, gnu::noinline]] static void lower_sizes(const Request* members, std::size_t count,
                                                       Size* bytes) noexcept;
  std::size_t index_of(const Request& request) const noexcept {
    return static_cast<std::size_t>(&request - ring_.data());
  }

  const std::span<Request> ring_;
  const std::unique_ptr<std::uint8_t[]> counts_;  // number of members, by the slot of a first one
};

template <typename Size>
inline void ReceiveGroups::dissolve(Request& first, std::span<Size> bytes) noexcept {
  const std::size_t index = index_of(first);
  const std::size_t count = std::exchange(counts_[index], std::uint8_t{0});
  DCHECK(count > 1);
  DCHECK(first.error == Errc::Ok && first.open_members == 0);
  if (bytes.size() < count || index + count > ring_.size()) [[unlikely]]
    return dissolve_apart(index, count, bytes);
  if (free_members(&first, count, bytes.data()) > std::numeric_limits<Size>::max()) [[unlikely]]
    lower_sizes(&first, count, bytes.data());
}

// Frees the members. Returns a number that is at least the largest size.
template <typename Size>
inline std::uint64_t ReceiveGroups::free_members(Request* members, std::size_t count,
                                                 Size* bytes) noexcept {
  std::uint64_t all = 0;
  static_assert(kGroupMax == 8);
  switch (count) {
    case 8: all |= free_member(members[7], &bytes[7]); [[fallthrough]];
    case 7: all |= free_member(members[6], &bytes[6]); [[fallthrough]];
    case 6: all |= free_member(members[5], &bytes[5]); [[fallthrough]];
    case 5: all |= free_member(members[4], &bytes[4]); [[fallthrough]];
    case 4: all |= free_member(members[3], &bytes[3]); [[fallthrough]];
    case 3: all |= free_member(members[2], &bytes[2]); [[fallthrough]];
    default: all |= free_member(members[1], &bytes[1]);
  }
  return all | free_member(members[0], &bytes[0]);
}

// Lowers a size that is too large for Size to its largest value.
template <typename Size>
void ReceiveGroups::lower_sizes(const Request* members, std::size_t count, Size* bytes) noexcept {
  constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<Size>::max());
  for (std::size_t i = 0; i < count; ++i)
    bytes[i] = static_cast<Size>(std::min(members[i].bytes, kMost));
}

// Dissolves a group around the end of the ring, or with less room for sizes than it has members.
template <typename Size>
void ReceiveGroups::dissolve_apart(std::size_t index, std::size_t count,
                                   std::span<Size> bytes) noexcept {
  constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<Size>::max());
  for (std::size_t i = 0; i < count; ++i) {
    Request& member = ring_[(index + i) & (ring_.size() - 1)];
    if (i < bytes.size()) bytes[i] = static_cast<Size>(std::min(member.bytes, kMost));
    member.state.store(RequestState::Free, std::memory_order_relaxed);
  }
}

}  // namespace mesh::engine
