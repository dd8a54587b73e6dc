#pragma once
// The second messages of a group, by which its members learn who reaches whom, and plan alike. The
// parts that it fills must stay where they are. Never blocks. Thread: one at a time. Bound: one
// message to and from each member.

#include <mesh/channel.h>
#include <mesh/status.h>

#include "plugin/oneshot/group.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace mesh::oneshot {

class ReachExchange {
 public:
  // parts: with channels to and from each member.
  explicit ReachExchange(Group::Parts& parts);  // throws bad_alloc

  // Returns WouldBlock until all have told each other, and then Ok, with the steps in the parts.
  // Throws bad_alloc.
  Status step();
  bool heard(std::size_t rank) const noexcept { return members_[rank].heard; }

 private:
  struct Messages {
    Request* ours = nullptr;
    Request* peers = nullptr;
    bool told = false, heard = false;
  };

  std::uint32_t neighbours() const noexcept;
  Status exchange(std::size_t rank) noexcept;
  Status plan();
  std::byte* room(std::size_t rank) const noexcept;

  Group::Parts& parts_;
  std::vector<Messages> members_;  // by rank
};

}  // namespace mesh::oneshot
