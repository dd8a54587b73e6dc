#pragma once
// All-reduce in one exchange, which the plugin computes (plugin/collnet.h): one at a time, each
// from its begin to its end on this rank. NCCL would cut it into chunks; here it is one call.
// Thread: as Collective.

#include "perf/collectives/arrays.h"
#include "perf/collectives/collective.h"
#include "perf/collectives/stopwatch.h"
#include "perf/driver/coll_comm.h"
#include "perf/driver/progress_thread.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace mesh::perf {

// Gives the all-reduces their turns. Thread: start() and samples from the owner while inactive,
// turn() from the progress thread.
class OneShotTurns final : public driver::Task {
 public:
  explicit OneShotTurns(driver::CollComm& comm) : comm_(comm) {}

  void start(const driver::CollWork& work, std::uint64_t count);
  bool turn() override;
  bool active() const noexcept override { return left_.load(std::memory_order_seq_cst) != 0; }
  int error() const noexcept override { return error_.load(std::memory_order_acquire); }
  const std::vector<double>& samples_us() const noexcept { return stopwatch_.samples_us(); }

 private:
  bool fail(int result);

  driver::CollComm& comm_;
  driver::CollWork work_;  // written in start(), released by left_
  void* request_ = nullptr;
  Stopwatch stopwatch_;
  // All-reduces that are not done; released in start() and turn(), acquired there and in active().
  std::atomic<std::uint64_t> left_{0};
  std::atomic<int> error_{0};  // released in turn(), acquired in error()
};

template <typename T>
class OneShot final : public Collective {
 public:
  OneShot(const Team& team, const CollectiveOptions& options)
      : team_(team),
        options_(options),
        arrays_(team, options),
        comm_(*team.communicator),
        turns_(comm_) {}
  ~OneShot() override { team_.communicator->progress().detach(turns_); }
  int open(std::string& error);

  std::size_t count_for(std::size_t bytes) const override { return arrays_.count_for(bytes); }
  std::size_t size_of(std::size_t count) const override { return arrays_.size_of(count); }
  // That of a ring, so that figures of both can be compared.
  double bus_factor() const override { return 2 * (team_.world() - 1.0) / team_.world(); }
  double sent_factor() const override { return team_.world() - 1.0; }
  bool set_placement(Placement placement) override {
    arrays_.set_placement(placement);
    return true;
  }
  int run(std::size_t count, int iterations) override;
  int check(std::size_t count, std::uint64_t round, std::size_t& wrong) override;
  const std::vector<double>* samples_us() const override { return &turns_.samples_us(); }

 private:
  driver::CollReduction reduction() const;

  const Team team_;
  const CollectiveOptions options_;
  Arrays<T> arrays_;
  driver::CollComm comm_;
  OneShotTurns turns_;
};

}  // namespace mesh::perf
