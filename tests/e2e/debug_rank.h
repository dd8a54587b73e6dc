#pragma once
// A rank that waits for a debugger: `e2e_... --debug-rank N`. The ranks' output is then not
// captured, and no time limit of the test ends them (tests/e2e/pace.h). Thread: main.

namespace mesh::e2e {

// Takes the flag and its number out of the arguments and keeps the number for the ranks, in their
// environment. Returns false, after one line, if the number is not usable.
bool take_debug_rank(int& argc, char** argv);

bool debugging();  // whether some rank waits for a debugger

// Returns when a debugger is attached; at once in any other rank.
void wait_for_debugger(int rank);

}  // namespace mesh::e2e
