#pragma once
// The members of one communicator, and the all-reduces between them. In each step of the plan
// (plan.h) a member sends what it has so far to the other members of the step, and reduces it with
// what they send; with one step for all, an all-reduce takes one exchange. A message is cut into
// pieces; they are sent, received and reduced in order, so a counter is all that matches them. The
// engine moves the bytes, and knows nothing of groups. An all-reduce that does not come further for
// NCCL_MESH_STALL_SECONDS gets a line that names the late members. Thread: NCCL's progress thread;
// the destructor follows its last call. Bounds: kMembersMax members, kJobs outstanding all-reduces,
// kPieces pieces on their way; a call reduces kReducedBytesMax at most.

#include <mesh/status.h>

#include "plugin/oneshot/element.h"
#include "plugin/oneshot/member.h"
#include "plugin/oneshot/memory.h"
#include "plugin/oneshot/plan.h"
#include "plugin/oneshot/stall.h"
#include "plugin/oneshot/sums.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace mesh::oneshot {

class Group;

struct Work {
  const std::byte* from = nullptr;  // read until the job is done
  std::byte* to = nullptr;          // may be `from`
  std::size_t count = 0;            // elements; alike on all members, as is what follows
  Reduction reduction;

  std::size_t bytes() const noexcept { return count * element_bytes(reduction.element); }
};

// One all-reduce under way. It stays valid until test() says that it is done.
struct Job {
  Group* group = nullptr;  // null: free
  Work work;
  std::uint64_t pieces_end = 0;  // it is done with all pieces below this one
};

class Group {
 public:
  // NCCL has eight outstanding for each eight of its channels, of which there are 64 at most.
  static constexpr std::size_t kJobs = 128;
  // Inputs that a call reduces at most, so that it holds NCCL's thread for about 20 us.
  static constexpr std::size_t kReducedBytesMax = std::size_t{256} << 10;

  struct Parts {
    std::unique_ptr<Memory> memory;
    std::vector<Member> members;  // by rank; our own has no channels
    std::size_t rank = 0;
    std::vector<PlanStep> steps;          // as steps_of() plans them
    decltype(&reduce) reducer = &reduce;  // a model charges its time
    StallWatch::Options stalls = {};
  };
  explicit Group(Parts parts);  // throws bad_alloc
  ~Group() = default;           // closes the channels; jobs that are still open die
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  // Returns WouldBlock if kJobs are outstanding. An error of a member is final for the group.
  Result<Job*> all_reduce(const Work& work) noexcept;
  // Moves all jobs on. Returns Ok if this one is done, and dead; WouldBlock if it is not.
  Status test(Job& job) noexcept;

  std::size_t size() const noexcept { return parts_.members.size(); }
  std::size_t steps() const noexcept { return stages_.size(); }

 private:
  // A part of a message in our own ring.
  struct Piece {
    std::byte* to = nullptr;
    std::size_t count = 0;
    Reduction reduction;
  };

  // How far a step has come.
  struct Stage {
    std::uint64_t reduced = 0;      // pieces
    std::size_t reduced_count = 0;  // elements of the piece that is being reduced
  };

  template <typename Each>
  void for_members(Each&& each) noexcept;
  void stage() noexcept;
  void stage_piece(Job& job) noexcept;
  void post() noexcept;
  void receive(std::size_t rank, Member& member) noexcept;
  void send(std::size_t index, Member& member) noexcept;
  void turn_engine() noexcept;
  void reap() noexcept;
  void take(Course& course, std::size_t rank, std::size_t bytes) noexcept;
  void reduce_ready() noexcept;
  void reduce_ready(std::size_t index, std::size_t& left) noexcept;
  void reduce_slice(std::size_t index, std::size_t count) noexcept;
  std::uint64_t brought_to(std::size_t index) const noexcept;
  std::uint64_t pieces_done() noexcept;
  void watch() noexcept {
    if (stalls_.due()) tell_of_stall();
  }
  void tell_of_stall() noexcept;
  std::string late_members();
  void fail(Errc cause) noexcept;

  Parts parts_;
  std::vector<Stage> stages_;  // by step
  std::array<Piece, kPieces> pieces_{};
  std::array<Job, kJobs> jobs_{};
  Errc failed_ = Errc::Ok;
  StallWatch stalls_;
  // Counts from the beginning on. Pieces are planned with their job, and staged in our ring.
  std::uint64_t jobs_begun_ = 0, jobs_staged_ = 0, jobs_done_ = 0;
  std::uint64_t planned_ = 0, staged_ = 0;
  std::size_t staged_bytes_ = 0;  // of the job that is being staged
  std::size_t turn_ = 0;          // whose request turns the engine next
};

}  // namespace mesh::oneshot
