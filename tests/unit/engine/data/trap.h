#pragma once
// A child process in which one thread, once armed, must neither enter the kernel nor allocate nor
// lock. In a binary that links this, malloc and its family and pthread_mutex_lock end the child
// when that thread calls them (operator new and delete go through malloc and free). Thread:
// run_in_child from the test's only thread; arm and leave within the work.

#include "tests/prelude.h"

namespace mesh::testkit {

enum class Violation : int { None, SystemCall, Allocation, Lock };

struct ChildReport {
  int code = -1;  // the result of the work, or leave()'s code; -1: the child died
  Violation violation = Violation::None;
  std::string text;  // for a reader: what was called and from where (an address for addr2line -e
                     // <this binary>)
};

// Runs the work in a forked child, which is killed after a minute of processor time.
ChildReport run_in_child(const std::function<int()>& work);

void arm();                         // cannot be undone: from now on only leave() ends it
[[noreturn]] void leave(int code);  // ends the child with the only system call that the trap allows

}  // namespace mesh::testkit
