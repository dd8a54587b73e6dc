#pragma once
// The files and the environment of the tool's own process. Files are found in the build tree that
// the tool lies in, or beside its folder, where an installation puts them. Thread: any for files;
// for the environment one, while no other reads it.

#include "src/base/config.h"

#include <string>
#include <vector>

namespace mesh::driver {

// These change the environment between two loads of the settings.
void set_variable(const std::string& name, const std::string& value);
void unset_variable(const std::string& name);

// Sets variables for one step and restores the user's afterwards.
class StepVariables {
 public:
  explicit StepVariables(const Environment& step);
  ~StepVariables();
  StepVariables(const StepVariables&) = delete;
  StepVariables& operator=(const StepVariables&) = delete;

 private:
  const Environment user_ = process_environment();
  std::vector<std::string> names_;
};

// Sets the variables that NCCL would set from its files (nccl.conf) before it loads a plugin.
void take_nccl_conf();

// Turns metrics off for a tool that only looks, so that a plugin that it loads later does not
// replace the job's page.
void write_no_metrics();

// Returns the plugin's library, or its bare name for the loader if neither place has it.
std::string own_plugin_file();

// Returns a file of perf/fabrics, or its path in the build tree if neither place has it.
std::string own_fabric_file(const std::string& name);

}  // namespace mesh::driver
