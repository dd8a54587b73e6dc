// Draws groups of one-shot all-reduce: contexts of their own on every host, beside the channels.

#include "tests/sim/scenario.h"

namespace mesh::sim {
namespace {

constexpr std::uint64_t kMembersStream = 16, kGroupsStream = 17;  // of Random
constexpr std::uint64_t kContentsStream = 1'000'000;  // of the first group, and further ones
constexpr std::uint64_t kRelaysOneIn = 3;
constexpr std::uint64_t kManyOneIn = 100;  // seeds with many members take long
constexpr std::size_t kFew = 4, kSome = 6, kMembersMax = 16;
constexpr std::size_t kOpenMax = 64;

ReductionPlan draw_work(Random& random, std::size_t members) {
  ReductionPlan work;
  if (!random.one_in(2))
    work.reduction = {static_cast<oneshot::Element>(random.below(oneshot::kElements)),
                      static_cast<oneshot::Operation>(random.below(oneshot::kOperations))};
  // A large one is cut into pieces.
  std::size_t bytes = random.below(random.one_in(5) ? 20'000 : 2'000);
  if (members <= kFew && random.one_in(60)) bytes = random.below(300'000);
  work.count = bytes / element_bytes(work.reduction.element);
  work.in_place = random.one_in(3);
  return work;
}

void draw_end(GroupPlan& group, Random& random) {
  const std::size_t rank = random.below(group.contexts.size());
  if (random.one_in(5)) {
    group.aborts = rank;
    group.aborts_at = random.below(group.work.size());
  }
  if (!random.one_in(12)) return;
  const std::uint64_t kind = random.below(3);
  (kind == 0 ? group.unwilling : kind == 1 ? group.unlike : group.absent) = rank;
}

void add_group(Scenario& scenario, Random& random) {
  GroupPlan& group = scenario.groups.emplace_back();
  const std::size_t members = scenario.hosts.size();
  group.contents = kContentsStream * scenario.groups.size();
  group.contexts.resize(members);
  std::iota(group.contexts.begin(), group.contexts.end(), scenario.contexts.size());
  for (std::size_t i = members; i > 1; --i)
    std::swap(group.contexts[i - 1], group.contexts[random.below(i)]);
  for (std::size_t host = 0; host < members; ++host)
    scenario.contexts.push_back({.host = host, .process = member_process(scenario, host)});
  const bool crowd = members > kSome;
  const std::uint64_t count = crowd              ? random.between(1, 4)
                              : random.one_in(4) ? random.between(20, 60)
                                                 : random.between(1, 12);
  for (std::uint64_t i = 0; i < count; ++i) group.work.push_back(draw_work(random, members));
  group.open = random.one_in(3) ? random.between(8, kOpenMax) : random.between(1, 8);
  if (scenario.options.level >= Level::Ends) draw_end(group, random);
}

}  // namespace

// Chooses before all else what the group needs: its hosts, and whether all are neighbours.
void draw_members(Scenario& scenario) {
  Random random(scenario.seed, kMembersStream);
  Options& options = scenario.options;
  options.relays |= scenario.seed % kRelaysOneIn == 0;
  const bool many = random.one_in(kManyOneIn);
  const std::size_t drawn = random.between(2, random.one_in(4) ? kSome : kFew);
  if (options.hosts == 0) options.hosts = many ? random.between(kSome + 1, kMembersMax) : drawn;
}

void draw_one_shot(Scenario& scenario) {
  Random random(scenario.seed, kGroupsStream);
  if (!scenario.options.relays && random.one_in(2)) scenario.channels.clear();
  add_group(scenario, random);
  if (random.one_in(4)) add_group(scenario, random);
}

}  // namespace mesh::sim
