#pragma once
// What this process holds of the system, for tests that nothing is left behind. Thread: any.

#include <chrono>
#include <string>

namespace mesh::e2e {

struct ProcessFigures {
  long threads = 0;
  long descriptors = 0;
  long mappings = 0;
  friend bool operator==(const ProcessFigures&, const ProcessFigures&) = default;
};

ProcessFigures process_figures();
// The same once they have not changed for a fifth of a second (at most three seconds long): before
// v11 there is no finalize, and links say goodbye in the background.
ProcessFigures settled_process_figures();
// The figures as soon as none of them is above these, or else those at the end of the patience.
ProcessFigures process_figures_down_to(const ProcessFigures& most,
                                       std::chrono::milliseconds patience);
std::string text_of(const ProcessFigures& figures);

}  // namespace mesh::e2e
