#pragma once
// Runs a line of the shell to its end and keeps what it prints. Thread: the test's.

#include "tests/prelude.h"

namespace mesh::testkit {

struct Ran {
  int code = -1;  // the exit status
  std::string text;
};

inline Ran run_line(const std::string& line) {
  Ran ran;
  std::FILE* const pipe = ::popen(line.c_str(), "r");
  if (pipe == nullptr) return ran;
  std::array<char, 4096> part{};
  while (std::fgets(part.data(), part.size(), pipe) != nullptr) ran.text += part.data();
  const int status = ::pclose(pipe);
  ran.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return ran;
}

}  // namespace mesh::testkit
