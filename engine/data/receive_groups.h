#pragma once
// Which receives of a channel were started together. The members of a group lie in neighbouring
// slots and are credits like any others; the first one's request is done when every member has its
// message. Thread: NCCL's forms and dissolves a group, the loop (token) does the rest in between.
// Bound: kGroupMax members.

#include <mesh/channel.h>
#include <mesh/status.h>

#include "engine/data/request.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace mesh::engine {

class ReceiveGroups {
 public:
  // The ring of requests, which outlives this.
  explicit ReceiveGroups(std::span<Request> ring)
      : ring_(ring), places_(std::make_unique<Place[]>(ring.size())) {}

  // NCCL's thread, before the requests are published. The sequence is the first one's.
  void form(std::uint64_t sequence, std::uint32_t count) noexcept;
  // How many there are, if the request is a group's first one; else 0.
  std::uint32_t count_of(const Request& request) const noexcept {
    return places_[index_of(request)].count;
  }
  // NCCL's thread, when the first one is Gathered or Failed: its slots are free. `bytes` gets what
  // each member received, as far as there is room.
  void dissolve(Request& first, std::span<std::size_t> bytes) noexcept;

  // Loop. A member has its message, or (unless why is Ok) can never have it. What is of no open
  // group is left alone.
  void land(Request& member, std::uint64_t bytes, Errc why) noexcept;

 private:
  struct Place {
    std::uint8_t count = 0;   // of a first one: members
    std::uint8_t offset = 0;  // of a member: slots from the first one
    std::uint8_t open = 0;    // loop, of a first one: members without a message
  };
  std::size_t index_of(const Request& request) const noexcept {
    return static_cast<std::size_t>(&request - ring_.data());
  }
  Request& at(std::size_t index) const noexcept { return ring_[index & (ring_.size() - 1)]; }

  const std::span<Request> ring_;
  const std::unique_ptr<Place[]> places_;  // by slot
};

}  // namespace mesh::engine
