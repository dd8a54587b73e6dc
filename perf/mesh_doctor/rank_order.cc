#include "perf/mesh_doctor/rank_order.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

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

// Returns true for a cable that was measured and carried nothing: it joins nobody.
bool silent(const std::vector<Measured>& measured, std::size_t cable) {
  bool any = false, passed = false;
  for (const Measured& each : measured) {
    any = any || each.step.cable == cable;
    passed = passed || (each.step.cable == cable && each.passed());
  }
  return any && !passed;
}

std::string names(const Cabling& cabling, const std::vector<std::size_t>& order) {
  std::string text;
  for (const std::size_t host : order)
    text += (text.empty() ? "" : ", ") + cabling.hosts[host].host;
  return text;
}

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

OrderAdvice advise_order(const Cabling& cabling, const std::vector<Measured>& measured) {
  Cabling working = cabling;
  std::vector<Cable> cables;
  for (std::size_t i = 0; i < cabling.cables.size(); ++i)
    if (!silent(measured, i)) cables.push_back(cabling.cables[i]);
  working.cables = std::move(cables);
  const Joined joined = [&](std::size_t a, std::size_t b) { return working.joined(a, b); };
  OrderAdvice advice;
  const std::size_t hosts = cabling.hosts.size();
  const auto broken = broken_neighbours(hosts, joined);
  if (hosts < 3 || broken.empty() || working.cables.empty()) return advice;
  std::string pairs;
  for (const auto& [a, b] : broken) {
    pairs += fmt::format("{}{} and {}", pairs.empty() ? "" : "; ", cabling.hosts[a].host,
                         cabling.hosts[b].host);
  }
  const RingSearch search = find_ring(hosts, joined);
  if (!search.order) {
    advice.note = fmt::format("Rank order: no working cable joins {}. {}.\n", pairs,
                              search.whole ? "No order of these hosts makes a ring of cables"
                                           : "The search for a better order was not finished");
    return advice;
  }
  advice.order = *search.order;
  std::vector<std::size_t> given(hosts);
  std::iota(given.begin(), given.end(), 0);
  advice.finding = finding(
      "rank-order", names(cabling, given),
      {"",
       fmt::format(
           "In the order of the ranks, no working cable joins these neighbours in the ring: {}.",
           pairs),
       fmt::format("Start the hosts in this order: {}. Each then has a cable to the next.",
                   names(cabling, *search.order))});
  return advice;
}

}  // namespace mesh::doctor
