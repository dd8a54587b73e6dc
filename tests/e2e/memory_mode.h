#pragma once
// What the memory of a whole run of a suite is: `--memory host`, `device`, or `mixed`, where every
// second rank has device memory. Thread: main.

#include <string>

namespace mesh::e2e {

// Takes the flag out of the arguments. False: it is not usable, and one line said why.
bool take_memory_mode(int& argc, char** argv);

bool has_device_memory();         // not in every run
void choose_memory_of(int rank);  // in the rank's process
// The same fabric, with NICs that take device memory.
std::string fabric_with_device_memory(const std::string& text);

}  // namespace mesh::e2e
