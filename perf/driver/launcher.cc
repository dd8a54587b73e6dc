#include "perf/driver/launcher.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <sstream>

namespace mesh::driver {
namespace {

std::vector<char*> null_terminated(const std::vector<std::string>& words) {
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

// Returns the command that runs this build's programs where the kernel cannot; empty if it can.
std::vector<std::string> emulator() {
#ifdef MESH_EMULATOR
  std::istringstream words(MESH_EMULATOR);
  return {std::istream_iterator<std::string>(words), {}};
#else
  return {};
#endif
}

// Runs in the child, up to exec. The launcher has one thread, so the C library may be used here.
[[noreturn]] void become(const ProcessSpec& spec, int output, pid_t launcher) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != launcher) ::_exit(127);  // it died before the line above
  if (output >= 0) {
    ::dup2(output, STDOUT_FILENO);
    ::dup2(output, STDERR_FILENO);
  }
  if (spec.inherited_fd >= 0) ::fcntl(spec.inherited_fd, F_SETFD, 0);
  for (const auto& [name, value] : spec.environment) ::setenv(name.c_str(), value.c_str(), 1);
  std::vector<std::string> words = emulator();
  words.insert(words.end(), spec.arguments.begin(), spec.arguments.end());
  const std::vector<char*> arguments = null_terminated(words);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::execvp(arguments[0], arguments.data());
  ::_exit(127);
}

}  // namespace

std::string ProcessEnd::text() const {
  if (exited) return "exit status " + std::to_string(code);
  if (code == 0) return "still running";
  return "signal " + std::to_string(code) + " (" + ::strsignal(code) + ")";
}

std::string own_program() {
  std::array<char, 4096> path{};
  const ssize_t length = ::readlink("/proc/self/exe", path.data(), path.size());
  return length > 0 ? std::string(path.data(), static_cast<std::size_t>(length)) : std::string();
}

Launcher::~Launcher() { kill_all(); }

Result<std::size_t> Launcher::start(const ProcessSpec& spec) {
  Process process;
  if (spec.capture) process.output.reset(::memfd_create("rank-output", MFD_CLOEXEC));
  const pid_t launcher = ::getpid();
  process.pid = ::fork();
  if (process.pid < 0) return Errc::System;
  if (process.pid == 0) become(spec, process.output.get(), launcher);
  ::setpgid(process.pid, process.pid);  // in parent and child, so that neither order leaves a gap
  process.pidfd.reset(static_cast<int>(::syscall(SYS_pidfd_open, process.pid, 0)));
  process.running = true;
  processes_.push_back(std::move(process));
  if (!processes_.back().pidfd.valid()) return Errc::System;
  return processes_.size() - 1;
}

// Looks at the end without reaping: until kill_all() the dead leader keeps its number, so that
// killing its group never hits an unrelated process.
void Launcher::observe(Process& process) noexcept {
  siginfo_t info{};
  while (::waitid(P_PID, static_cast<id_t>(process.pid), &info, WEXITED | WNOWAIT) < 0 &&
         errno == EINTR) {
  }
  process.running = false;
  process.pidfd.reset();
  process.end.exited = info.si_code == CLD_EXITED;
  process.end.code = info.si_status;
}

WaitEnd Launcher::wait(const WaitOptions& options) {
  const auto deadline = std::chrono::steady_clock::now() + options.timeout;
  for (;;) {
    std::vector<pollfd> entries;
    std::vector<Process*> owners;
    for (Process& process : processes_) {
      if (!process.running) continue;
      entries.push_back({process.pidfd.get(), POLLIN, 0});
      owners.push_back(&process);
    }
    if (owners.empty()) return WaitEnd::AllEnded;
    if (options.signal_fd >= 0) entries.push_back({options.signal_fd, POLLIN, 0});
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
                          deadline - std::chrono::steady_clock::now())
                          .count();
    if (left <= 0) return WaitEnd::TimedOut;
    if (::poll(entries.data(), entries.size(), static_cast<int>(std::min<long>(left, 60'000))) < 0)
      continue;
    for (std::size_t i = 0; i < owners.size(); ++i) {
      if (entries[i].revents == 0) continue;
      observe(*owners[i]);
      if (options.stop_at_failure && !owners[i]->end.success()) return WaitEnd::OneFailed;
    }
    if (options.signal_fd >= 0 && entries.back().revents != 0) return WaitEnd::Signaled;
  }
}

void Launcher::kill_all() noexcept {
  for (const Process& process : processes_) {
    if (!process.reaped) ::kill(-process.pid, SIGKILL);
  }
  for (Process& process : processes_) {
    if (process.running) observe(process);
    if (process.reaped) continue;
    while (::waitpid(process.pid, nullptr, 0) < 0 && errno == EINTR) {
    }
    process.reaped = true;
  }
}

std::string Launcher::output(std::size_t index) const {
  const int fd = processes_[index].output.get();
  std::string text;
  std::array<char, 65536> chunk{};
  off_t offset = 0;
  for (ssize_t got = 0; fd >= 0 && (got = ::pread(fd, chunk.data(), chunk.size(), offset)) > 0;
       offset += got) {
    text.append(chunk.data(), static_cast<std::size_t>(got));
  }
  return text;
}

}  // namespace mesh::driver
