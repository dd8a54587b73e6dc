#include "plugin/oneshot/plan.h"

#include <numeric>
#include <utility>

namespace mesh::oneshot {

namespace {

constexpr std::size_t kCubeMembers = 8, kSquareMembers = 4;

// Gives the members places 0, 1, ... so that members whose places differ in one bit are neighbours.
class Cube {
 public:
  Cube(std::size_t members, const Neighbours& neighbours)
      : members_(members), neighbours_(neighbours) {}

  // Returns the ranks by place, the first such order; empty: there is none.
  std::vector<std::size_t> places() && {
    place_from(0);
    return std::move(ranks_);
  }

 private:
  bool place_from(std::size_t place) {
    if (place == members_) return true;
    for (std::size_t rank = 0; rank < members_; ++rank) {
      if ((placed_ >> rank & 1u) != 0 || !fits(place, rank)) continue;
      placed_ |= 1u << rank;
      ranks_.push_back(rank);
      if (place_from(place + 1)) return true;
      ranks_.pop_back();
      placed_ &= ~(1u << rank);
    }
    return false;
  }
  bool fits(std::size_t place, std::size_t rank) const {
    for (std::size_t bit = 1; bit < members_; bit *= 2) {
      if ((place & bit) == 0) continue;
      const std::size_t other = ranks_[place ^ bit];
      if ((neighbours_[rank] >> other & neighbours_[other] >> rank & 1u) == 0) return false;
    }
    return true;
  }

  const std::size_t members_;
  const Neighbours& neighbours_;
  std::uint32_t placed_ = 0;  // a bit for each rank
  std::vector<std::size_t> ranks_;
};

bool all_are_neighbours(std::size_t members, const Neighbours& neighbours) {
  for (std::size_t rank = 0; rank < members; ++rank) {
    const std::uint32_t others = ((1u << members) - 1) & ~(1u << rank);
    if ((neighbours[rank] & others) != others) return false;
  }
  return true;
}

std::vector<PlanStep> all_at_once(std::size_t rank, std::size_t members) {
  PlanStep step{.ranks = std::vector<std::size_t>(members), .from = rank};
  std::iota(step.ranks.begin(), step.ranks.end(), std::size_t{0});
  return {std::move(step)};
}

}  // namespace

std::vector<PlanStep> steps_of(std::size_t rank, std::size_t members,
                               const Neighbours& neighbours) {
  if ((members != kSquareMembers && members != kCubeMembers) ||
      all_are_neighbours(members, neighbours))
    return all_at_once(rank, members);
  const std::vector<std::size_t> ranks = Cube(members, neighbours).places();
  if (ranks.empty()) return all_at_once(rank, members);
  std::size_t place = 0;
  while (ranks[place] != rank) ++place;
  std::vector<PlanStep> steps;
  // The places that differ from ours in bit 0 and in one more bit are of no step of ours.
  for (std::size_t bit = 1; bit < members; bit *= 2) {
    const std::size_t from = bit == 1 ? rank : ranks[place ^ 1 ^ bit];
    steps.push_back({{ranks[place & ~bit], ranks[place | bit]}, from});
  }
  return steps;
}

}  // namespace mesh::oneshot
