#pragma once
// Runs a program to its end and keeps what it printed. Thread: the test's.

#include <filesystem>
#include <string>
#include <vector>

namespace mesh::testkit {

struct Outcome {
  int exit_status = -1;
  std::vector<std::string> lines;
};

// An empty root leaves the program where we are.
Outcome run(std::vector<std::string> command, const std::filesystem::path& root,
            std::vector<std::string> environment);

std::string joined(const std::vector<std::string>& lines);

}  // namespace mesh::testkit
