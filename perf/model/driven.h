#pragma once
// An end of a flow, or a member of a group: a host's proxy in the model asks each for its next
// call, in turn start, test, start, test, and charges the time of the call. Times are the model's.
// Thread: the world's.

#include <cstdint>

namespace mesh::model {

// The cost of our own code for the caller of each call, beside the NIC's post, doorbell and
// completion: the 540 instructions a message that it may take (perf/instructions/run --bars) in its
// four calls, at three a nanosecond.
struct CallCosts {
  std::uint64_t start_ns = 45;  // isend, irecv
  std::uint64_t test_ns = 45;   // test, with the turn it takes while the request is open
  // The cost that relays add, counted with callgrind (perf/README.md), also at three instructions a
  // nanosecond: the ends' queue pairs in each call, with their five send queues to look at; a
  // middle host's thread for each chain that it looks at, and for each work request, completion and
  // count that it moves.
  std::uint64_t end_ns = 100;
  std::uint64_t chain_ns = 30, moved_ns = 50;
  // One-shot all-reduce, picoseconds a byte, as an x86 machine with AVX2 took them for 48 KiB of
  // float in its cache: the copy into the group's memory, and each input of a sum.
  std::uint64_t copy_ps = 26, add_ps = 22;
};

class Driven {
 public:
  // The outcome of one call.
  enum class Called : std::uint8_t { Nothing, Waiting, Progress, Failed };

  Driven() = default;
  Driven(const Driven&) = default;
  Driven& operator=(const Driven&) = default;
  virtual ~Driven() = default;

  virtual Called call_start(std::uint64_t now_ns) = 0;
  virtual Called call_test() = 0;
  // The test that has just made progress ended at that time.
  virtual void note_progress(std::uint64_t at_ns) = 0;
  virtual bool over() const noexcept = 0;
  // The time of our own code in the next call.
  virtual std::uint64_t own_ns(const CallCosts& costs, bool testing) const noexcept = 0;
};

}  // namespace mesh::model
