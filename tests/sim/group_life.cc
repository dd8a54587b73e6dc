// How the members of a group come together and leave.

#include "src/base/timeouts.h"
#include "tests/sim/group_run.h"
#include "tests/sim/world.h"

namespace mesh::sim {
namespace {
constexpr std::uint64_t kBound = 65536;
}

// NCCL gathers all handles before it connects.
void GroupRun::listen(Member& member) {
  const std::size_t rank = rank_of(member);
  if (member.listener == nullptr) {
    const Result<Listener*> made =
        world_.engine_of(member.context).listen(world_.context(member.context), 0, handles_[rank]);
    if (!made.ok()) return wrong(member, fmt::format("listen: {}", errc_name(made.code())));
    member.listener = *made;
    return world_.progress();
  }
  const bool all = std::all_of(members_.begin(), members_.end(), [](const Member& each) {
    return each.listener != nullptr || each.state > State::Listening;
  });
  if (!all) return;
  member.state = State::Connecting;
  member.until_ns = world_.now_ns() + kOneShotConnectToGiveUpNs;
  world_.progress();
  if (rank == plan_.absent) return vote(member, Vote::No);
  member.bring_up = std::make_unique<oneshot::BringUp>(
      oneshot::BringUp::Invitation{.engine = world_.engine_of(member.context),
                                   .context = world_.context(member.context),
                                   .listener = *member.listener,
                                   .handles = handles_,
                                   .rank = rank,
                                   .bound = rank == plan_.unlike ? kBound / 2 : kBound,
                                   .willing = rank == plan_.unwilling ? 0u : 1u});
}

// A member that has no group says no, as plugin/collnet_seat.h does. All have one if nothing has
// failed; none has if one cannot take part, though that one itself might.
void GroupRun::connect(Member& member) {
  const Status status = member.bring_up->step();
  const bool late = world_.now_ns() >= member.until_ns;
  if (status.code() == Errc::WouldBlock && !late) return;
  const std::size_t rank = rank_of(member);
  if (status.ok() && has_dud() && rank != plan_.unwilling)
    return wrong(member, "has a group, which a member cannot join");
  if (!status.ok() && !has_dud() && !may_not_connect_ && excuses_ == 0)
    return wrong(member, fmt::format("has no group: {}, without: {}", errc_name(status.code()),
                                     member.bring_up->missing()));
  if (status.ok()) found(member, member.bring_up->take());
  vote(member, status.ok() && rank != plan_.unwilling ? Vote::Yes : Vote::No);
}

void GroupRun::found(Member& member, oneshot::Group::Parts parts) {
  plans_[rank_of(member)] = parts.steps;
  world_.trace().note("group", {number_, rank_of(member), parts.steps.size()});
  member.group = std::make_unique<oneshot::Group>(std::move(parts));
}

void GroupRun::vote(Member& member, Vote vote) {
  member.vote = vote;
  member.state = State::Voting;
  world_.trace().note("vote", {number_, rank_of(member), vote == Vote::Yes ? 1u : 0u});
  world_.progress();
}

// NCCL gathers the votes; a member that is lost has none.
void GroupRun::count_votes(Member& member) {
  bool all = true;
  for (const Member& each : members_) {
    if (each.vote == Vote::None && !each.gone) return;
    all = all && each.vote == Vote::Yes;
  }
  member.state = all ? State::Running : State::Leaving;
  world_.progress();
}

// There is no barrier before the end: a peer may still receive.
void GroupRun::leave(Member& member) {
  if (world_.nested()) return;
  if (!member.open.empty() || member.done != plan_.work.size()) excuse(kPeerAborted);
  take_down(member);
}

void GroupRun::take_down(Member& member) {
  member.state = State::Over;
  world_.trace().note("leaves", {number_, rank_of(member), member.open.size()});
  member.open.clear();
  const std::uint64_t cuts = world_.trace().cuts();
  world_.wait_begins(member.context);
  if (member.listener != nullptr)
    world_.engine_of(member.context).close_listener(std::exchange(member.listener, nullptr));
  member.bring_up.reset();
  member.group.reset();
  world_.wait_ends(member.context);
  if (world_.trace().cuts() != cuts && world_.scenario().healthy())
    wrong(member, "a link was cut although everybody answers");
  world_.progress();
}

void GroupRun::abort(std::size_t context) {
  for (Member& member : members_) {
    if (member.context != context || member.gone || member.state == State::Over) continue;
    excuse_connecting();
    excuse(kPeerAborted);
    member.gone = true;
    take_down(member);
  }
}

void GroupRun::lose(std::size_t context) noexcept {
  for (Member& member : members_) {
    if (member.context != context) continue;
    member.gone = true;
    member.state = State::Over;
    member.open.clear();
  }
}

}  // namespace mesh::sim
