#pragma once
// The hosts and the cables over which a path has failed lately. Those of the latest failure are the
// last to be tried again, so that tries go over all that there is. Thread: control mutex. Bounds:
// kRelayHostsMax hosts and kFailedStepsMax cables.

#include "engine/link/relay/routes.h"
#include "src/base/timeouts.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace mesh::engine {

inline constexpr std::size_t kFailedStepsMax = 256;

// The two ends of a step of a route. The ticket of the connector, and of the peer, is zero.
struct StepEnds {
  Id128 from{}, to{};
  std::uint8_t from_rail = 0, to_rail = 0;
  friend bool operator==(const StepEnds&, const StepEnds&) = default;
};

class FailedSteps {
 public:
  // Notes that a route has failed, through the host with that ticket or one of its two cables: a
  // host says that it reaches its neighbour no more, and not over which cable. If the ticket is
  // zero nobody knows why, and all hosts and cables of the route are noted. What failed longer ago
  // is forgotten, because a path has carried since.
  void add(const RelayRoute& route, const Id128& at_fault, std::uint64_t now_ns) {
    if (now_ns >= last_ns_ + kHostKnownNs) {
      hosts_.clear();
      steps_.clear();
      number_ = 0;
    }
    last_ns_ = now_ns;
    ++number_;
    StepEnds step{.from_rail = route.own_rail};
    for (const RouteHop& hop : route.hops) {
      if (at_fault == Id128{} || at_fault == hop.host.ticket)
        note(hosts_, hop.host.ticket, kRelayHostsMax);
      step.to = hop.host.ticket;
      step.to_rail = hop.near_rail;
      note_step(step, at_fault);
      step = {.from = hop.host.ticket, .from_rail = hop.far_rail};
    }
    step.to_rail = route.peer_rail;
    note_step(step, at_fault);
  }
  // Return the number of the last failure of a host or a cable, counted from 1; 0: there is none.
  std::uint32_t host(const Id128& ticket) const noexcept { return number_of(hosts_, ticket); }
  std::uint32_t step(const StepEnds& ends) const noexcept { return number_of(steps_, ends); }

 private:
  template <typename What>
  using Numbers = std::vector<std::pair<What, std::uint32_t>>;  // the oldest first

  void note_step(const StepEnds& step, const Id128& at_fault) {
    if (at_fault == Id128{} || step.from == at_fault || step.to == at_fault)
      note(steps_, step, kFailedStepsMax);
  }
  template <typename What>
  void note(Numbers<What>& numbers, const What& what, std::size_t most) {
    std::erase_if(numbers, [&what](const auto& each) { return each.first == what; });
    if (numbers.size() == most) numbers.erase(numbers.begin());
    numbers.emplace_back(what, number_);
  }
  template <typename What>
  static std::uint32_t number_of(const Numbers<What>& numbers, const What& what) noexcept {
    const auto found = std::find_if(numbers.begin(), numbers.end(),
                                    [&what](const auto& each) { return each.first == what; });
    return found == numbers.end() ? 0 : found->second;
  }

  Numbers<Id128> hosts_;
  Numbers<StepEnds> steps_;
  std::uint32_t number_ = 0;
  std::uint64_t last_ns_ = 0;
};

}  // namespace mesh::engine
