#pragma once
// What this process holds of the system, for tests that nothing is left behind. Thread: any.

#include <string>

namespace mesh::e2e {

struct ProcessFigures {
  long threads = 0;
  long descriptors = 0;
  long mappings = 0;
};

ProcessFigures process_figures();
std::string text_of(const ProcessFigures& figures);

}  // namespace mesh::e2e
