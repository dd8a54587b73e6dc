#pragma once
// Chooses the memory of a whole run of a suite: `--memory host`, `device`, or `mixed`, where every
// second rank has device memory. Thread: main.

#include <string>

namespace mesh::e2e {

// Takes the flag out of the arguments. Returns false, after one line that says why, if it is not
// usable.
bool take_memory_mode(int& argc, char** argv);

bool has_device_memory();         // whether some rank of this run has it
void choose_memory_of(int rank);  // called in the rank's process
// Returns the fabric with NICs that take device memory.
std::string fabric_with_device_memory(const std::string& text);

}  // namespace mesh::e2e
