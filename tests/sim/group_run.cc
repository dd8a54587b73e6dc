#include "tests/sim/group_run.h"

#include "tests/sim/memory.h"
#include "tests/sim/world.h"
#include "tests/unit/plugin/oneshot/plain_reduce.h"

namespace mesh::sim {

GroupRun::GroupRun(World& world, std::size_t number, const GroupPlan& plan)
    : world_(world), number_(number), plan_(plan) {
  members_.resize(plan_.contexts.size());
  handles_.resize(members_.size());
  plans_.resize(members_.size());
  wanted_.resize(plan_.work.size());
  for (Member& member : members_) {
    const std::size_t rank = rank_of(member);
    member.context = plan_.contexts[rank];
    for (std::size_t i = 0; i < plan_.work.size(); ++i) {
      const Bytes& input = member.inputs.emplace_back(input_of(rank, i));
      if (plan_.work[i].in_place)
        member.results.push_back(input);
      else
        member.results.emplace_back(input.size(), kUntouched);
    }
  }
}

void GroupRun::wrong(const Member& member, const std::string& what) const {
  world_.trace().violate(fmt::format("{}: member {}: {}", describe(), rank_of(member), what));
}

std::string GroupRun::describe() const {
  std::string members;
  for (const Member& member : members_) {
    members += fmt::format("{}{} done, {} open, state {}", members.empty() ? "" : "; ", member.done,
                           member.open.size(), static_cast<int>(member.state));
  }
  return fmt::format("group {} of {} all-reduces ({})", number_, plan_.work.size(), members);
}

bool GroupRun::over() const noexcept {
  return std::all_of(members_.begin(), members_.end(),
                     [](const Member& member) { return member.state == State::Over; });
}

bool GroupRun::all_past(State state) const noexcept {
  return std::all_of(members_.begin(), members_.end(),
                     [state](const Member& member) { return member.state > state; });
}

bool GroupRun::has_dud() const noexcept {
  return plan_.unwilling != SIZE_MAX || plan_.unlike != SIZE_MAX || plan_.absent != SIZE_MAX;
}

bool GroupRun::has_context(std::size_t context) const noexcept {
  return std::find(plan_.contexts.begin(), plan_.contexts.end(), context) != plan_.contexts.end();
}

bool GroupRun::has_host(std::size_t host) const noexcept {
  const auto& contexts = world_.scenario().contexts;
  return std::any_of(plan_.contexts.begin(), plan_.contexts.end(),
                     [&](std::size_t context) { return contexts[context].host == host; });
}

void GroupRun::excuse_connecting() noexcept { may_not_connect_ |= !all_past(State::Connecting); }

void GroupRun::act(std::size_t rank) {
  Member& member = members_[rank];
  if (member.gone || member.busy) return;
  member.busy = true;
  act(member);
  member.busy = false;
}

void GroupRun::act(Member& member) {
  switch (member.state) {
    case State::Listening: return listen(member);
    case State::Connecting: return connect(member);
    case State::Voting: return count_votes(member);
    case State::Running: return run(member);
    case State::Leaving: return leave(member);
    case State::Over: return;
  }
}

void GroupRun::run(Member& member) {
  if (member.done == plan_.work.size()) return leave(member);
  if (rank_of(member) == plan_.aborts && member.done >= plan_.aborts_at) return leave(member);
  const bool may_begin = member.begun < plan_.work.size() && member.open.size() < plan_.open;
  if (may_begin && world_.random().one_in(2)) return begin(member);
  ask(member);
}

void GroupRun::begin(Member& member) {
  const ReductionPlan& work = plan_.work[member.begun];
  Bytes& result = member.results[member.begun];
  Bytes& input = work.in_place ? result : member.inputs[member.begun];
  const Result<oneshot::Job*> job = member.group->all_reduce({.from = input.data(),
                                                              .to = result.data(),
                                                              .count = work.count,
                                                              .reduction = work.reduction});
  if (job.code() == Errc::WouldBlock) return;
  if (!job.ok()) {
    if ((excuses_ & mesh::sim::excuse(job.code())) == 0)
      return wrong(member, fmt::format("a new all-reduce: {}", errc_name(job.code())));
    member.state = State::Leaving;
    return world_.progress();
  }
  world_.trace().note("all-reduce", {number_, rank_of(member), member.begun});
  member.open.push_back(*job);
  ++member.begun;
  world_.progress();
}

// NCCL asks for the oldest alone.
void GroupRun::ask(Member& member) {
  if (member.open.empty()) return;
  const Status status = member.group->test(*member.open.front());
  if (status.code() == Errc::WouldBlock) return;
  if (status.ok()) return take(member);
  world_.trace().note("all-reduce failed", {number_, rank_of(member), member.done,
                                            static_cast<std::uint64_t>(status.code())});
  if ((excuses_ & mesh::sim::excuse(status.code())) == 0)
    return wrong(member, fmt::format("all-reduce {}: {}", member.done, errc_name(status.code())));
  // The application aborts, and others hear of it.
  excuse(kPeerAborted);
  member.state = State::Leaving;
  world_.progress();
}

void GroupRun::take(Member& member) {
  const std::size_t work = member.done++;
  member.open.pop_front();
  Bytes& result = member.results[work];
  world_.trace().note("all-reduce done", {number_, rank_of(member), work, result.size()});
  if (result != wanted(work)) {
    const auto [at, _] = std::mismatch(result.begin(), result.end(), wanted(work).begin());
    return wrong(member, fmt::format("all-reduce {}: byte {} of {} is wrong", work,
                                     at - result.begin(), result.size()));
  }
  // NCCL uses both again at once.
  std::fill(result.begin(), result.end(), kConsumed);
  std::fill(member.inputs[work].begin(), member.inputs[work].end(), kConsumed);
  world_.count_received();
  world_.progress();
}

// Inputs of members that are done with an all-reduce are gone, so they are drawn again.
GroupRun::Bytes GroupRun::input_of(std::size_t rank, std::size_t work) const {
  const ReductionPlan& what = plan_.work[work];
  Random random(world_.scenario().seed, plan_.contents + rank * plan_.work.size() + work);
  Bytes input(what.count * element_bytes(what.reduction.element));
  for (std::byte& each : input) each = static_cast<std::byte>(random.next() >> 32);
  return input;
}

const GroupRun::Bytes& GroupRun::wanted(std::size_t work) {
  if (!wanted_[work].empty() || plan_.work[work].count == 0) return wanted_[work];
  const oneshot::Reduction reduction = plan_.work[work].reduction;
  std::vector<Bytes> inputs;
  for (std::size_t rank = 0; rank < members_.size(); ++rank) inputs.push_back(input_of(rank, work));
  wanted_[work] = oneshot::testkit::reduce_in_steps(reduction, inputs, plans_);
  // The order of integers does not matter, so this tells whether the steps take each part once.
  const bool whole = reduction.element < oneshot::Element::Half;
  if (whole && wanted_[work] != oneshot::testkit::plain_reduce(reduction, inputs))
    world_.trace().violate(describe() + ": the steps do not add up all parts once");
  return wanted_[work];
}

void GroupRun::check_memory() {
  for (const Member& member : members_) {
    for (std::size_t i = 0; i < member.done; ++i) {
      if (!all_are(member.results[i], kConsumed) || !all_are(member.inputs[i], kConsumed))
        return wrong(member, fmt::format("all-reduce {}: bytes written after it was done", i));
    }
    for (std::size_t i = member.begun; i < plan_.work.size(); ++i) {
      if (!plan_.work[i].in_place && !all_are(member.results[i], kUntouched))
        return wrong(member, fmt::format("all-reduce {}: bytes written before it began", i));
    }
  }
}

}  // namespace mesh::sim
