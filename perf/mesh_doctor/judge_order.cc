// Compares the order of the ranks with the ring that NCCL makes of them.
#include "perf/mesh_doctor/judge_order.h"

#include "perf/mesh_doctor/rank_order.h"

#include <fmt/format.h>

#include <numeric>

namespace mesh::doctor {
namespace {

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
    advice.note = fmt::format("Rank order: no cable joins {}. {}\n", pairs,
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
       fmt::format("in the order of the ranks, no cable joins these neighbours in the ring: {}",
                   pairs),
       fmt::format("start the hosts in this order: {}; then each has a cable to the next",
                   names(cabling, *search.order))});
  return advice;
}

}  // namespace mesh::doctor
