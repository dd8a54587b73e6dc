#pragma once
// Checks what every fuzzer expects of the log: one line at a time, of characters that a terminal
// only prints. Nothing is shown. Thread: one.

#include <cstdio>
#include <cstdlib>

namespace mesh::fuzz {

void quiet_log();  // called once, before anything else

// Reports a finding: says what is wrong and aborts.
[[noreturn]] inline void finding(const char* what) {
  std::fprintf(stderr, "finding: %s\n", what);
  std::abort();
}
inline void expect(bool right, const char* what) {
  if (!right) finding(what);
}

}  // namespace mesh::fuzz
