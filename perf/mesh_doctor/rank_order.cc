#include "perf/mesh_doctor/rank_order.h"

#include <algorithm>

namespace mesh::doctor {
namespace {

class Search {
 public:
  Search(std::size_t hosts, const Joined& joined) : joined_(joined), used_(hosts) {
    order_.push_back(0);
    used_[0] = true;
    neighbours_.resize(hosts);
    for (std::size_t a = 0; a < hosts; ++a) {
      for (std::size_t b = 0; b < hosts; ++b) {
        if (a != b && joined(a, b)) neighbours_[a].push_back(b);
      }
    }
    // A host with few cables goes first, because it can be reached from few hosts.
    for (std::vector<std::size_t>& each : neighbours_) {
      std::stable_sort(each.begin(), each.end(), [this](std::size_t a, std::size_t b) {
        return neighbours_[a].size() < neighbours_[b].size();
      });
    }
  }

  // NOLINTNEXTLINE(misc-no-recursion): as deep as there are hosts.
  bool extend() {
    if (order_.size() == used_.size()) return joined_(order_.back(), 0);
    for (const std::size_t next : neighbours_[order_.back()]) {
      if (used_[next]) continue;
      if (++steps_ > kOrderStepsMax) return false;
      used_[next] = true;
      order_.push_back(next);
      if (extend()) return true;
      order_.pop_back();
      used_[next] = false;
    }
    return false;
  }
  bool whole() const { return steps_ <= kOrderStepsMax; }
  const std::vector<std::size_t>& order() const { return order_; }

 private:
  const Joined& joined_;
  std::vector<bool> used_;
  std::vector<std::size_t> order_;
  std::vector<std::vector<std::size_t>> neighbours_;
  std::size_t steps_ = 0;
};

}  // namespace

std::vector<std::pair<std::size_t, std::size_t>> broken_neighbours(std::size_t hosts,
                                                                   const Joined& joined) {
  std::vector<std::pair<std::size_t, std::size_t>> broken;
  if (hosts < 2) return broken;
  for (std::size_t i = 0; i < hosts; ++i) {
    const std::size_t next = (i + 1) % hosts;
    if (next != i && !joined(i, next)) broken.emplace_back(i, next);
    if (hosts == 2) break;
  }
  return broken;
}

RingSearch find_ring(std::size_t hosts, const Joined& joined) {
  if (hosts < 2) return {};
  Search search(hosts, joined);
  RingSearch found;
  if (search.extend()) found.order = search.order();
  found.whole = search.whole();
  return found;
}

}  // namespace mesh::doctor
