#pragma once
// Connects the members of a group: this host to each of the others, and each of them to it. The
// first message on each channel says who has sent it (Hello), and the second whom it reaches
// (Reach). There is no agreement beyond: whoever fails has no group, and NCCL's own vote then keeps
// all from using theirs. A member that cannot have a group still says hello to all, lest others
// wait for it. Never blocks. Thread: one at a
// time. Bound: kMembersMax members.

#include <mesh/engine.h>
#include <mesh/status.h>

#include "plugin/oneshot/group.h"
#include "plugin/oneshot/hello.h"
#include "plugin/oneshot/member.h"
#include "plugin/oneshot/reach_exchange.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
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
    std::string host = {};            // this host's name
    StallWatch::Options stalls = {};  // of the group
  };
  explicit BringUp(Invitation invitation);  // throws bad_alloc

  // Returns WouldBlock until every member has said hello and heard ours, or cannot; and then, if
  // all have and agree, until all have said whom they reach; then Ok. Else the engine, or one line
  // of ours, has said why. Throws bad_alloc.
  Status step();
  // The ranks of members from which nothing was heard, for a log line.
  std::string missing() const;
  Group::Parts take() noexcept { return std::move(parts_); }  // after Ok, once

 private:
  // Whether there is more to do for a channel, by what its last step has answered.
  enum class Stage : std::uint8_t { Open, Done, Failed };
  struct Departure {
    Request* hello = nullptr;
    Stage stage = Stage::Open;  // Done: the hello has arrived
  };
  struct Arrival {
    Side side;
    Request* hello = nullptr;
    Stage stage = Stage::Open;  // Done: the hello was read
  };
  Status meet();
  Status connect(std::size_t rank);
  Status accept();
  Status read(std::size_t index);
  Status admit(Arrival& arrival, const Hello& hello);
  Stage stage_after(Status status) noexcept;
  bool awaits_members() const noexcept;
  std::byte* hello_room(std::size_t index) const noexcept;
  std::size_t size() const noexcept { return parts_.members.size(); }

  Invitation invitation_;
  const Hello ours_;
  Group::Parts parts_;
  std::vector<Departure> departures_;      // by rank
  std::vector<Arrival> arrivals_;          // in the order in which they came
  std::vector<bool> greeted_;              // by rank: its hello was read, and may not please
  std::optional<ReachExchange> exchange_;  // once all have met
  std::size_t nameless_ = 0;               // channels that did not come to a hello
  Errc failed_ = Errc::Ok;
};

}  // namespace mesh::oneshot
