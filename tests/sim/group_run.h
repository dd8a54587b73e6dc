#pragma once
// Drives all members of one group of one-shot all-reduce as NCCL would: each listens, connects,
// votes, reduces with several outstanding, and leaves when it has its results, without waiting for
// the others. Compares every result with plain loops over the steps of the plan, and overwrites
// input and result as soon as an all-reduce is done.

#include "plugin/oneshot/bring_up.h"
#include "plugin/oneshot/group.h"
#include "tests/sim/channel_side.h"
#include "tests/sim/scenario.h"

namespace mesh::sim {

class World;

class GroupRun {
 public:
  GroupRun(World& world, std::size_t number, const GroupPlan& plan);

  // Does one thing that the member's user might do. While another call waits, does nothing that
  // may wait.
  void act(std::size_t rank);
  bool over() const noexcept;
  bool over(std::size_t rank) const noexcept { return members_[rank].state == State::Over; }
  const GroupPlan& plan() const noexcept { return plan_; }
  bool has_context(std::size_t context) const noexcept;
  bool has_host(std::size_t host) const noexcept;

  // A member that is not connected yet, or loses another one, has a reason to fail.
  void excuse(Excuses excuses) noexcept { excuses_ |= excuses; }
  void excuse_connecting() noexcept;
  // Takes the member's part down before its context is closed. It waits.
  void abort(std::size_t context);
  // The member's host is no more: nothing of it may be touched before the end of the world.
  void lose(std::size_t context) noexcept;
  void check_memory();
  std::string describe() const;

 private:
  enum class State : std::uint8_t { Listening, Connecting, Voting, Running, Leaving, Over };
  enum class Vote : std::uint8_t { None, Yes, No };
  using Bytes = std::vector<std::byte>;
  struct Member {
    State state = State::Listening;
    Vote vote = Vote::None;
    bool gone = false;
    bool busy = false;  // in a call of the engine's, in which the world may go on
    std::size_t context = 0;
    Listener* listener = nullptr;
    std::uint64_t until_ns = 0;  // it gives up connecting
    std::unique_ptr<oneshot::BringUp> bring_up;
    std::unique_ptr<oneshot::Group> group;
    std::deque<oneshot::Job*> open;
    std::size_t begun = 0, done = 0;
    std::vector<Bytes> inputs, results;  // by all-reduce
  };

  void act(Member& member);
  void listen(Member& member);
  void connect(Member& member);
  void found(Member& member, oneshot::Group::Parts parts);
  void vote(Member& member, Vote vote);
  void count_votes(Member& member);
  void run(Member& member);
  void begin(Member& member);
  void ask(Member& member);
  void take(Member& member);
  void leave(Member& member);
  void take_down(Member& member);
  Bytes input_of(std::size_t rank, std::size_t work) const;
  const Bytes& wanted(std::size_t work);
  bool all_past(State state) const noexcept;
  bool has_dud() const noexcept;
  std::size_t rank_of(const Member& member) const noexcept {
    return static_cast<std::size_t>(&member - members_.data());
  }
  void wrong(const Member& member, const std::string& what) const;

  World& world_;
  const std::size_t number_;
  const GroupPlan plan_;
  Excuses excuses_ = 0;
  bool may_not_connect_ = false;
  std::vector<Member> members_;  // by rank
  std::vector<HandleBytes> handles_;
  std::vector<std::vector<oneshot::PlanStep>> plans_;  // by rank
  std::vector<Bytes> wanted_;  // by all-reduce; computed when the first member has a result
};

}  // namespace mesh::sim
