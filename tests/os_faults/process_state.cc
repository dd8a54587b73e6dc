#include "tests/os_faults/process_state.h"

#include "tests/os_faults/door.h"

#include <dirent.h>

namespace mesh::testkit {
namespace {

constexpr std::chrono::seconds kPoolPatience{60};

std::vector<std::string> entries_of(const char* folder) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir(folder), ::closedir);
  while (const dirent* entry = directory ? ::readdir(directory.get()) : nullptr) {
    if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
  }
  return names;
}

std::set<std::string> open_descriptors() {
  std::set<std::string> found;
  for (const std::string& name : entries_of("/proc/self/fd")) {
    std::array<char, 256> target{};
    if (::readlink(("/proc/self/fd/" + name).c_str(), target.data(), target.size() - 1) < 0)
      continue;
    const std::string text(target.data());
    if (text.find("/proc/") == std::string::npos)
      found.insert(name + " -> " + text);  // all but the folder being read
  }
  return found;
}

std::string callers_of_new_blocks() {
  std::array<door::Block, 8> blocks;
  const std::size_t count =
      std::min(door::blocks_since_mark(blocks.data(), blocks.size()), blocks.size());
  std::string text;
  for (std::size_t i = 0; i < count; ++i) {
    Dl_info info{};
    if (::dladdr(blocks[i].caller, &info) == 0) continue;
    const auto offset = reinterpret_cast<std::uintptr_t>(blocks[i].caller) -
                        reinterpret_cast<std::uintptr_t>(info.dli_fbase);
    const std::string file(info.dli_fname);
    text += fmt::format("{}{} bytes taken at {}+{:#x}", i == 0 ? " (" : ", ", blocks[i].bytes,
                        file.substr(file.rfind('/') + 1), offset);
  }
  return text.empty() ? text : text + ")";
}

}  // namespace

ProcessState ProcessState::now() {
  for (int i = 0; i < 2; ++i)
    ::dlerror();  // glibc keeps this thread's last error until it has been asked for
  ProcessState state;
  state.blocks_ = door::live_blocks();
  sigset_t blocked;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
  for (int signal = 1; signal < NSIG; ++signal) {
    if (::sigismember(&blocked, signal) == 1) state.signals_.insert(signal);
  }
  state.descriptors_ = open_descriptors();
  for (const std::string& thread : entries_of("/proc/self/task")) {
    std::string name;
    std::ifstream("/proc/self/task/" + thread + "/comm") >> name;
    ++state.threads_;
    if (name == "mesh-bring-up" || name == "mesh-device") ++state.pool_threads_;
  }
  return state;
}

ProcessState ProcessState::settled() {
  const auto deadline = std::chrono::steady_clock::now() + kPoolPatience;
  ProcessState state = now();
  while (state.pool_threads_ != 0 && std::chrono::steady_clock::now() < deadline) {
    ::usleep(1000);
    state = now();
  }
  return state;
}

bool ProcessState::differs_in_memory_alone(const ProcessState& later) const {
  return signals_ == later.signals_ && descriptors_ == later.descriptors_ &&
         threads_ == later.threads_;
}

std::string ProcessState::difference(const ProcessState& later) const {
  std::string text;
  const auto add = [&text](const std::string& what) { text += (text.empty() ? "" : "; ") + what; };
  if (signals_ != later.signals_)
    add(fmt::format("{} signals were blocked, {} are", signals_.size(), later.signals_.size()));
  if (threads_ != later.threads_)
    add(fmt::format("there were {} threads, there are {}", threads_, later.threads_));
  std::vector<std::string> more;
  std::set_difference(later.descriptors_.begin(), later.descriptors_.end(), descriptors_.begin(),
                      descriptors_.end(), std::back_inserter(more));
  for (const std::string& each : more) add("descriptor " + each + " is left");
  if (later.blocks_ > blocks_) {
    add(fmt::format("there were {} blocks of memory, there are {}{}", blocks_, later.blocks_,
                    callers_of_new_blocks()));
  }
  return text;
}

}  // namespace mesh::testkit
