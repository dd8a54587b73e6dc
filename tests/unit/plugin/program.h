#pragma once
// Runs a program to its end and keeps its output. Thread: the test's.

#include "tests/prelude.h"

namespace mesh::testkit {

struct Outcome {
  int exit_status = -1;
  std::vector<std::string> lines;
};

// Runs the command in `root`. An empty root leaves it in the current root directory.
Outcome run(std::vector<std::string> command, const std::filesystem::path& root,
            std::vector<std::string> environment);

std::string joined(const std::vector<std::string>& lines);

}  // namespace mesh::testkit
