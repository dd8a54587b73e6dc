#pragma once
// Processes of other jobs on the hosts of a world (--strange). They hear the questions that go over
// the cables and answer them with another secret, ask questions of their own, and send nonsense.
// Some of them know the job's secret and ask more at once than a host answers in a second, where
// the job has the time to ask again. They say in the trace what a host of the job should not have
// answered. Thread: one. Bound: one process for
// each host, with a datagram each kOtherJobPauseNs.

#include "engine/link/relay/neighbour_message.h"
#include "src/verbs/cable_datagrams.h"
#include "src/verbs/discovery.h"
#include "tests/sim/random.h"
#include "tests/sim/scenario.h"
#include "tests/sim/trace.h"

namespace mesh::sim {

inline constexpr std::string_view kSimulatedJob = "the secret of a simulated job";
// The control address that they name leads to this host, which is none of the world's.
inline constexpr std::size_t kOtherJobHost = 0xffff;
inline constexpr std::uint64_t kOtherJobPauseNs = 50'000'000;

class OtherJobs {
 public:
  OtherJobs(const Scenario& scenario, Trace& trace);

  void join(std::size_t host, verbs::Provider& provider);  // some hosts get none
  void leave(std::size_t host);                            // the host is gone
  void act(std::uint64_t now_ns);

 private:
  struct End {
    std::unique_ptr<verbs::CableDatagrams> ear, mouth;
  };
  struct Process {
    std::size_t host = 0;
    engine::JobKey key;
    std::vector<verbs::Rail> rails;
    std::vector<End> ends{};  // by rail
    std::uint64_t next_ns = 0;
    std::uint64_t crowds_at_ns =
        UINT64_MAX;  // when it asks so much; UINT64_MAX: never, or not again
    std::unique_ptr<verbs::CableDatagrams> crowd{};
    std::uint64_t crowd_ns = 0, answers = 0;
  };
  engine::Id128 nonce();
  void hear(Process& one, std::uint64_t now_ns);
  void forge_answer(const Process& one, verbs::CableDatagrams& ear,
                    const verbs::CableDatagram& question);
  void ask(Process& one);
  void ask_as_a_crowd(Process& one, std::uint64_t now_ns);

  Random random_;
  Trace& trace_;
  const bool crowds_;                // some ask so much
  std::uint64_t processes_max_ = 1;  // of a host of the job
  std::vector<std::unique_ptr<Process>> all_;
  std::set<engine::Id128> nonces_;  // of their own questions
};

}  // namespace mesh::sim
