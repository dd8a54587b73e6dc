#pragma once
// The system resources that this process holds, for tests that nothing is left behind. Thread: any.

#include "tests/prelude.h"

namespace mesh::e2e {

struct ProcessFigures {
  long threads = 0;
  long descriptors = 0;
  long mappings = 0;
  friend bool operator==(const ProcessFigures&, const ProcessFigures&) = default;
};

ProcessFigures process_figures();
// Returns the figures once they have not changed for 0.2 s, after at most 3 s: before v11 there is
// no finalize, and links say goodbye in the background.
ProcessFigures settled_process_figures();
// Returns the figures as soon as none of them is above `most`, or else those at the end of the
// patience.
ProcessFigures process_figures_down_to(const ProcessFigures& most,
                                       std::chrono::milliseconds patience);
std::string text_of(const ProcessFigures& figures);
// Returns how often the threads of this process that still run have waited for something.
long wake_ups();

}  // namespace mesh::e2e
