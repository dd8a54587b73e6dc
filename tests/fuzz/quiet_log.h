#pragma once
// How a fuzzer reports a finding. The source file beside this one is part of every fuzzer: it shows
// nothing of the log, and checks that its lines have only characters that a terminal prints.
// Thread: one.

#include "tests/standard.h"

namespace mesh::fuzz {

// Reports a finding: says what is wrong and aborts.
[[noreturn]] inline void finding(const char* what) {
  std::fprintf(stderr, "finding: %s\n", what);
  std::abort();
}
inline void expect(bool right, const char* what) {
  if (!right) finding(what);
}

}  // namespace mesh::fuzz
