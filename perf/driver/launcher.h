#pragma once
// Starts the ranks of one run as processes of this host, and ends every one of them with its
// children: each rank leads a process group of its own and dies with its launcher. Thread: one
// owner, the thread that outlives the ranks (their death signal is tied to it).

#include <mesh/status.h>

#include "src/base/unique_fd.h"

#include <sys/types.h>
#include <chrono>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace mesh::driver {

struct ProcessSpec {
  std::vector<std::string> arguments{};                            // the first is the program
  std::vector<std::pair<std::string, std::string>> environment{};  // added to ours
  int inherited_fd = -1;  // a descriptor of ours for the process, whatever its flags
  bool capture = false;   // keep stdout and stderr instead of sharing ours
};

struct ProcessEnd {
  bool exited = false;       // false: still running, or ended by a signal
  int code = 0;              // exit status, or signal number
  std::string text() const;  // "exit status 3", "signal 9 (Killed)"
  bool success() const noexcept { return exited && code == 0; }
};

enum class WaitEnd { AllEnded, OneFailed, TimedOut, Signaled };

class Launcher {
 public:
  Launcher() = default;
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;
  ~Launcher();  // kills and reaps everything

  // Returns the index of the process.
  Result<std::size_t> start(const ProcessSpec& spec);

  struct WaitOptions {
    std::chrono::milliseconds timeout{0};
    bool stop_at_failure = false;  // return as soon as one ends badly
    int signal_fd = -1;            // a signalfd, or -1
  };
  WaitEnd wait(const WaitOptions& options);
  void kill_all() noexcept;  // and their process groups

  std::size_t count() const noexcept { return processes_.size(); }
  bool running(std::size_t index) const noexcept { return processes_[index].running; }
  const ProcessEnd& end(std::size_t index) const noexcept { return processes_[index].end; }
  std::string output(std::size_t index) const;  // captured so far

 private:
  struct Process {
    pid_t pid = -1;
    UniqueFd pidfd;
    UniqueFd output;  // memfd
    bool running = false;
    bool reaped = false;
    ProcessEnd end;
  };
  static void observe(Process& process) noexcept;

  std::vector<Process> processes_;
};

// Returns the path of the running program, for starting it again as a rank.
std::string own_program();

}  // namespace mesh::driver
