#pragma once
// One-shot all-reduces of a group of all hosts in the model, one at a time: each host begins when
// all have ended the last one. Times are the model's; sums and copies take the time that the costs
// say. Thread: the world's. Bound: the all-reduces asked for.

#include <mesh/engine.h>

#include "perf/model/driven.h"
#include "plugin/oneshot/group.h"
#include "src/soft/soft_provider.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace mesh::model {

struct GroupLoad {
  std::size_t bytes = 8;  // of float: a multiple of 4 above 0
  std::uint64_t rounds = 16, warmup = 4;
};

class GroupRun {
 public:
  struct Host {
    Engine& engine;
    Context& context;
    soft::SoftProvider& provider;
  };
  struct Order {
    GroupLoad load;
    std::vector<Host> hosts;  // by rank
    CallCosts costs;
    std::function<void()> step;  // lets a little time pass while the members connect
  };
  // Connects the members. Returns null if they do not; `why` says what failed.
  static std::unique_ptr<GroupRun> open(const Order& order, std::string& why);

  ~GroupRun();
  Driven& member(std::size_t rank) noexcept;
  std::size_t steps() const noexcept;
  // From the first host's call to the last host's end, of each round after the warm-up.
  std::vector<double> latencies_us() const;

 private:
  class Member;
  struct Round {
    std::uint64_t began_ns = 0, ended_ns = 0;
    std::size_t ended = 0;  // members
  };

  explicit GroupRun(const Order& order);
  bool connect(std::string& why);

  const Order order_;
  std::vector<Round> rounds_;
  std::vector<std::unique_ptr<Member>> members_;
};

}  // namespace mesh::model
