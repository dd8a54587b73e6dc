#include "perf/driver/own_environment.h"

#include <cstdlib>

namespace mesh::driver {

void set_variable(const std::string& name, const std::string& value) {
  ::setenv(name.c_str(), value.c_str(), 1);
}
void unset_variable(const std::string& name) { ::unsetenv(name.c_str()); }

void write_no_metrics() { set_variable("NCCL_MESH_STATS", ""); }

}  // namespace mesh::driver
