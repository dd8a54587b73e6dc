#pragma once
// Connects the members of a group: this host to each of the others, and each of them to it. The
// first message on each channel says who has sent it (Hello). There is no agreement beyond: whoever
// fails has no group, and NCCL's own vote then keeps all from using theirs. Never blocks. Thread:
// one at a time. Bound: kMembersMax members.

#include <mesh/engine.h>
#include <mesh/status.h>

#include "plugin/oneshot/group.h"
#include "plugin/oneshot/hello.h"
#include "plugin/oneshot/member.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace mesh::oneshot {

class BringUp {
 public:
  struct Invitation {
    Engine& engine;
    Context& context;
    Listener& listener;
    int rail = 0;
    std::vector<HandleBytes> handles;  // by rank, ours included; 2 to kMembersMax
    std::size_t rank = 0;
    std::uint64_t bound = 0;  // NCCL_MESH_ONESHOT_BYTES
    std::uint32_t willing = 1;
  };
  explicit BringUp(Invitation invitation);  // throws bad_alloc

  // Returns Ok when every member has said hello and heard ours, and WouldBlock before. An error is
  // final; the engine, or one line of ours, has said why. Throws bad_alloc.
  Status step();
  // The ranks of members from which nothing was heard, for a log line.
  std::string missing() const;
  Group::Parts take() noexcept { return std::move(parts_); }  // after Ok, once

 private:
  struct Departure {
    Request* hello = nullptr;
    bool heard = false;  // the hello has arrived
  };
  struct Arrival {
    Side side;
    Request* hello = nullptr;
    bool read = false;
  };

  Status connect(std::size_t rank);
  Status accept();
  Status read(std::size_t index);
  Status admit(Arrival& arrival, const Hello& hello);
  std::byte* hello_room(std::size_t index) const noexcept;
  std::size_t size() const noexcept { return parts_.members.size(); }

  Invitation invitation_;
  const Hello ours_;
  Group::Parts parts_;
  std::vector<Departure> departures_;  // by rank
  std::vector<Arrival> arrivals_;      // in the order in which they came
};

}  // namespace mesh::oneshot
