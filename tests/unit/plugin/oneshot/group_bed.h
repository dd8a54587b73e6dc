#pragma once
// Hosts of a software fabric in one process and on a manual clock, each a member of one group.
// Thread: one. Bounds: those of the bed.

#include "plugin/oneshot/bring_up.h"
#include "plugin/oneshot/group.h"
#include "tests/prelude.h"
#include "tests/unit/engine/bed.h"
#include "tests/unit/plugin/oneshot/plain_reduce.h"

namespace mesh::oneshot::testkit {

using Bytes = std::vector<std::byte>;

inline constexpr Reduction kFloatSum{Element::Float, Operation::Sum};

// Hosts in a row, or in a ring.
struct Shape {
  const char* name = "";
  int hosts = 2;
  bool ring = false;
};

struct GroupBedOptions {
  std::string fabric;
  std::string rails = "auto";
  int path_timeout_s = Settings{}.path_timeout_s;
  int stall_seconds = Settings{}.stall_seconds;
};

class GroupBed {
 public:
  explicit GroupBed(const GroupBedOptions& options)
      : fabric_(options.fabric),
        bed({.fabric = fabric_.c_str(),
             .stall_seconds = options.stall_seconds,
             .path_timeout_s = options.path_timeout_s,
             .rails = options.rails}),
        stalls_{.bar_ns = static_cast<std::uint64_t>(options.stall_seconds) * kNsPerSecond,
                .clock = bed.clock()} {
    bed.tick_ns = 10'000;
    groups.resize(size());
    plans.resize(size());
    for (std::size_t rank = 0; rank < size(); ++rank) {
      listeners_.push_back(
          bed.hosts[rank].engine->listen(*context(rank), 0, handles_.emplace_back()).value());
      bounds.push_back(65536);
      willing.push_back(1);
    }
  }
  ~GroupBed() {
    groups.clear();
    close_listeners();
  }

  std::size_t size() const { return bed.hosts.size(); }
  Context* context(std::size_t rank) { return bed.hosts[rank].contexts[0]; }

  void invite(std::size_t rank) {
    bring_ups_.resize(size());
    bring_ups_[rank] = std::make_unique<BringUp>(
        BringUp::Invitation{.engine = *bed.hosts[rank].engine,
                            .context = *context(rank),
                            .listener = *listeners_[rank],
                            .handles = handles_,
                            .rank = rank,
                            .bound = bounds[rank],
                            .willing = willing[rank],
                            .host = std::string(1, static_cast<char>('a' + rank)),
                            .stalls = stalls_});
  }
  BringUp& bring_up(std::size_t rank) { return *bring_ups_[rank]; }
  // Gives the others no handle of this host, as if it could not listen.
  void spoil_handle(std::size_t rank) { handles_[rank].fill(std::byte{0}); }
  // Ends this host's part, as a process that has failed or given up does.
  void leave(std::size_t rank) {
    bring_ups_[rank].reset();
    bed.hosts[rank].engine->close_listener(std::exchange(listeners_[rank], nullptr));
  }

  // Turns all bring-ups until each has ended. One that fails leaves, and its answer stays.
  std::vector<Errc> connect() {
    std::vector<Errc> answers(size(), Errc::WouldBlock);
    for (std::size_t rank = 0; rank < size(); ++rank) invite(rank);
    EXPECT_TRUE(bed.until([&] {
      bool all = true;
      for (std::size_t rank = 0; rank < size(); ++rank) {
        if (answers[rank] != Errc::WouldBlock) continue;
        answers[rank] = bring_ups_[rank]->step().code();
        if (answers[rank] == Errc::Ok)
          found(rank);
        else if (answers[rank] != Errc::WouldBlock)
          leave(rank);
        all = all && answers[rank] != Errc::WouldBlock;
      }
      return all;
    }));
    close_listeners();
    return answers;
  }

 private:
  std::string fabric_;
  std::vector<Listener*> listeners_;
  std::vector<HandleBytes> handles_;
  std::vector<std::unique_ptr<BringUp>> bring_ups_;

  void found(std::size_t rank) {
    Group::Parts parts = bring_ups_[rank]->take();
    plans[rank] = parts.steps;
    groups[rank] = std::make_unique<Group>(std::move(parts));
  }
  void close_listeners() {
    bring_ups_.clear();
    for (std::size_t rank = 0; rank < listeners_.size(); ++rank) {
      if (listeners_[rank] != nullptr)
        bed.hosts[rank].engine->close_listener(std::exchange(listeners_[rank], nullptr));
    }
  }

 public:
  mesh::testkit::Bed bed;
  std::vector<std::unique_ptr<Group>> groups;  // by rank
  std::vector<std::vector<PlanStep>> plans;    // by rank, of the groups that were founded
  std::vector<std::uint64_t> bounds;           // NCCL_MESH_ONESHOT_BYTES, by rank
  std::vector<std::uint32_t> willing;

 private:
  const StallWatch::Options stalls_;
};

enum class Place : std::uint8_t { Apart, InPlace };

// One all-reduce of all members, with random data.
class Round {
 public:
  Round(const Reduction& reduction, std::size_t count, const GroupBed& bed,
        Place place = Place::Apart)
      : reduction_(reduction), count_(count), place_(place) {
    const std::size_t members = bed.size();
    std::mt19937_64 random(count * 31 + members);
    for (std::size_t rank = 0; rank < members; ++rank) {
      Bytes& input = inputs_.emplace_back(count * element_bytes(reduction.element));
      for (std::byte& each : input) each = static_cast<std::byte>(random());
    }
    wanted_ = reduce_in_steps(reduction, inputs_, bed.plans);
    results_ = place == Place::InPlace ? inputs_ : std::vector<Bytes>(members, Bytes(bytes()));
    jobs_.resize(members);
    statuses_.assign(members, Errc::WouldBlock);
  }

  std::size_t bytes() const { return inputs_[0].size(); }
  Work work(std::size_t rank) {
    return {.from = (place_ == Place::InPlace ? results_ : inputs_)[rank].data(),
            .to = results_[rank].data(),
            .count = count_,
            .reduction = reduction_};
  }
  void start(GroupBed& bed) {
    for (std::size_t rank = 0; rank < bed.size(); ++rank) start(*bed.groups[rank], rank);
  }
  void start(Group& group, std::size_t rank) {
    const Result<Job*> job = group.all_reduce(work(rank));
    ASSERT_TRUE(job.ok()) << errc_name(job.code());
    jobs_[rank] = job.value();
  }
  // Tests each job that is open. Returns true if none is.
  bool done() {
    bool all = true;
    for (std::size_t rank = 0; rank < jobs_.size(); ++rank) {
      if (jobs_[rank] == nullptr) continue;
      statuses_[rank] = jobs_[rank]->group->test(*jobs_[rank]).code();
      if (statuses_[rank] != Errc::WouldBlock) jobs_[rank] = nullptr;
      all = all && jobs_[rank] == nullptr;
    }
    return all;
  }
  Errc status(std::size_t rank) const { return statuses_[rank]; }
  void expect_right() const {
    for (std::size_t rank = 0; rank < results_.size(); ++rank) {
      EXPECT_EQ(statuses_[rank], Errc::Ok) << errc_name(statuses_[rank]);
      EXPECT_TRUE(results_[rank] == wanted_) << "of rank " << rank << ", " << bytes() << " bytes";
    }
  }

 private:
  const Reduction reduction_;
  const std::size_t count_;
  const Place place_;
  std::vector<Bytes> inputs_, results_;
  Bytes wanted_;
  std::vector<Job*> jobs_;
  std::vector<Errc> statuses_;
};

}  // namespace mesh::oneshot::testkit
