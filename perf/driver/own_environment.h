#pragma once
// Changes this process's environment between two loads of the settings. Thread: one, while no other
// reads the environment.

#include <string>

namespace mesh::driver {

void set_variable(const std::string& name, const std::string& value);
void unset_variable(const std::string& name);

// For a tool that only looks: a plugin that it loads later leaves no page in the place of the
// job's.
void write_no_metrics();

}  // namespace mesh::driver
