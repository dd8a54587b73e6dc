#pragma once
// The two ends of a run of mesh_perf: a deadline, and the file of --until. Thread: one owner; the
// deadline's own thread only sleeps. Every call is bounded by the bootstrap's timeout.

#include "perf/driver/bootstrap.h"

#include <mesh/status.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace mesh::perf {

// The deadline of a whole run in a rank that no launcher of ours watches. When it is over, the
// process says so in one line and ends with status 1, whatever it waits for. Failures are reported
// here too, so that those caused by the deadline are not blamed.
class RunLimit {
 public:
  RunLimit(int rank, std::chrono::seconds limit);
  ~RunLimit();
  RunLimit(const RunLimit&) = delete;
  RunLimit& operator=(const RunLimit&) = delete;

  void enforce();  // begins to end the process in time; without it the limit only counts

  // Ranks start at different times. The deadline of the first one holds for all.
  std::chrono::milliseconds left() const;
  void shorten_to(std::chrono::milliseconds left);
  void enter(const char* stage);  // the stage that the line names

  // Writes one line on stderr. If the time is over when a rank is lost, the line says so.
  void tell(const std::string& failure);

 private:
  using Clock = std::chrono::steady_clock;
  void watch();
  void tell_end();  // under mutex_

  const std::string who_;
  const std::chrono::seconds limit_;
  std::thread thread_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // All under mutex_.
  Clock::time_point deadline_;
  const char* stage_ = "start";
  bool told_end_ = false;
  bool over_ = false;
};

// The file that ends a run of open length (--until). The ranks agree on it: the host of any rank
// may hold the file, and all of them end after the same round.
class EndMark {
 public:
  // An empty name means that the run has a fixed length: then nothing is looked for and nothing is
  // exchanged.
  EndMark(std::string file, driver::Bootstrap& bootstrap)
      : file_(std::move(file)), bootstrap_(bootstrap) {}

  // Returns whether some rank's host has the file. Every rank asks after the same round, and all
  // get the same result. Returns an error if a rank was lost.
  Result<bool> seen();

 private:
  const std::string file_;
  driver::Bootstrap& bootstrap_;
};

}  // namespace mesh::perf
