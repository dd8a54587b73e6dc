#pragma once
// A child process in which one thread, from a moment on, must neither enter the kernel nor allocate
// nor lock. The binary that links this has its malloc family and pthread_mutex_lock replaced by
// ones that end the child when that thread calls them (operator new and delete go through malloc
// and free). Thread: run_in_child from the test's only thread; arm and leave within the work.

#include <cstdint>
#include <functional>
#include <string>

namespace mesh::testkit {

enum class Violation : int { None, SystemCall, Allocation, Lock };

struct ChildReport {
  int code = -1;  // what the work answered or gave to leave(); -1: it died
  Violation violation = Violation::None;
  std::string text;  // for a reader: what was called and from where (an address for addr2line -e
                     // <this binary>)
};

// Forks; the child runs the work and is killed after a minute.
ChildReport run_in_child(const std::function<int()>& work);

void arm();                         // no way back: from now on only leave()
[[noreturn]] void leave(int code);  // ends the child; the one system call that is let through

}  // namespace mesh::testkit
