#include "engine/link/relay/relay_client.h"
#include "src/base/check.h"
#include "src/base/log.h"

#include <algorithm>
#include <exception>
#include <utility>

namespace mesh::engine {

RelayedChains::RelayedChains(RelayClient& client, RelayRoute route, std::size_t queue_pairs,
                             std::function<void()> changed)
    : client_(client),
      route_(std::move(route)),
      queue_pairs_(queue_pairs),
      changed_(std::move(changed)) {}

RelayedChains::~RelayedChains() {
  for (const Part& part : parts_) {
    if (part.connection == 0) continue;
    try {
      client_.say(part.connection, Cut{.chain = part.number});
    } catch (const std::exception& error) {
      LOG_WARN("relay: {}; the host on the way hears of the end when the connection ends",
               error.what());
    }
  }
  std::erase(client_.chains_, this);
}

RelayedChains::Part* RelayedChains::part_of(ConnectionId connection,
                                            std::uint64_t number) noexcept {
  const auto found = std::find_if(parts_.begin(), parts_.end(), [&](const Part& part) {
    return part.connection == connection && part.number == number;
  });
  return found == parts_.end() ? nullptr : &*found;
}

bool RelayedChains::uses(ConnectionId connection) const noexcept {
  return std::any_of(parts_.begin(), parts_.end(),
                     [connection](const Part& part) { return part.connection == connection; });
}

bool RelayedChains::awaits(ConnectionId connection) const noexcept {
  return (step_ == Step::Asked || step_ == Step::Joining) &&
         std::any_of(parts_.begin(), parts_.end(), [connection](const Part& part) {
           return part.connection == connection && !part.done;
         });
}

void RelayedChains::finish_part(Part& part, Step next) {
  part.done = true;
  if (!std::all_of(parts_.begin(), parts_.end(), [](const Part& each) { return each.done; }))
    return;
  step_ = next;
  changed_();
}

void RelayedChains::break_off(const Part& part, std::string why) {
  if (step_ == Step::Broken) return;
  step_ = Step::Broken;
  at_fault_ = route_.hops[static_cast<std::size_t>(&part - parts_.data())].host.ticket;
  why_ = std::move(why);
  changed_();
}

// Tells each middle host its neighbours, which are we, other middle hosts, or the peer.
void RelayedChains::join(const WireHop& own, const WireHop& peer) {
  CHECK(step_ == Step::Made);
  step_ = Step::Joining;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    parts_[i].done = false;
    const WireHop& near = i == 0 ? own : parts_[i - 1].far;
    const WireHop& far = i + 1 == parts_.size() ? peer : parts_[i + 1].near;
    client_.say(parts_[i].connection, Join{.chain = parts_[i].number, .near = near, .far = far});
  }
}

}  // namespace mesh::engine
