#pragma once
// Changes this process's environment between two loads of the settings. Thread: one, while no other
// reads the environment.

#include <string>

namespace mesh::driver {

void set_variable(const std::string& name, const std::string& value);
void unset_variable(const std::string& name);

// Turns metrics off for a tool that only looks, so that a plugin that it loads later does not
// replace the job's page.
void write_no_metrics();

}  // namespace mesh::driver
