#pragma once
// A verified job on the ring of four hosts (ring4.json), and faults under it: of cables and
// processes. Rank 0 leads: it breaks and mends on a thread of its own, and decides for all ranks. A
// job goes on until all of that is done, however long it takes. Thread: main, except the thread
// that leads.

#include "perf/collectives/collective.h"
#include "tests/e2e/scenario.h"

#include <sys/types.h>

namespace mesh::e2e {

inline constexpr int kRingHosts = 4;

// Process ids by rank.
std::vector<pid_t> processes(Peer& peer);
void stop_for(pid_t process, double seconds);
// Returns whether the process ends within that time.
bool ends_within(pid_t process, driver::milliseconds time);

// The cable joins a host of the ring and the next one.
void cut_cable(int from);
void mend_cable(int from);
std::string cable_name(int from);  // "a-b"
// The card at one end of a cable, that of its first host or of the next one. It leaves, and the
// port at the other end goes down; then another card is in its place.
struct CableEnd {
  int cable = 0;
  bool far = false;
};
void take_card(const CableEnd& end);
void bring_card(const CableEnd& end);

// Sleeps up to `most` seconds. Nothing depends on how long.
void pause_at_random(std::mt19937_64& random, double most);
// Returns the hosts that our last relayed path to this peer leads over: "b" or "d and c". Empty if
// there was none, or NCCL_DEBUG_SUBSYS does not show such lines.
std::string route_to(const std::string& peer);

class RingJob {
 public:
  static constexpr std::size_t kBytes = std::size_t{256} << 10;  // of a round
  RingJob(driver::Communicator& communicator, driver::Bootstrap& team, perf::Kind kind,
          std::size_t bytes = kBytes);

  bool leads() const noexcept { return team_.rank() == 0; }
  int round();  // returns its result; wrong elements fail the scenario
  // Runs `count` rounds that must succeed, and returns the longest one in seconds.
  double verified(int count = 1);
  double round_s() const noexcept { return round_s_; }  // a healthy round, about
  // Waits until host a of the software fabric has posted a random number of bytes more, of up to
  // `rounds_most` rounds' worth. Fails the scenario if no data flows.
  void let_flow(std::mt19937_64& random, int rounds_most) const;
  bool agree(bool own);  // returns the leader's word
  // Runs rounds until the leader has acted, and returns the longest one of all ranks in seconds.
  double during(const std::function<void()>& act);

 private:
  driver::Bootstrap& team_;
  std::unique_ptr<perf::Collective> collective_;
  std::size_t bytes_ = 0, count_ = 0;
  std::uint64_t round_ = 0;
  double round_s_ = 0;
};

// How many times a fault strikes, and the seed of its moments: "12 7".
struct Moments {
  int times = 0;
  std::uint64_t seed = 0;
};
Moments moments_of(const std::string& argument);

}  // namespace mesh::e2e
