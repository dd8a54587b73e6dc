#include "perf/driver/own_process.h"

#include "perf/driver/launcher.h"
#include "src/base/nccl_conf.h"

#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace mesh::driver {

void set_variable(const std::string& name, const std::string& value) {
  ::setenv(name.c_str(), value.c_str(), 1);
}
void unset_variable(const std::string& name) { ::unsetenv(name.c_str()); }

StepVariables::StepVariables(const Environment& step) {
  for (const auto& [name, value] : step) {
    names_.push_back(name);
    set_variable(name, value);
  }
}

StepVariables::~StepVariables() {
  for (const std::string& name : names_) {
    const auto user = user_.find(name);
    user == user_.end() ? unset_variable(name) : set_variable(name, user->second);
  }
}

void take_nccl_conf() {
  const Environment own = process_environment();
  for (const auto& [name, value] : with_nccl_conf(own)) {
    if (!own.contains(name)) set_variable(name, value);
  }
}

void write_no_metrics() { set_variable("NCCL_MESH_STATS", ""); }

namespace {

namespace fs = std::filesystem;

constexpr const char* kPlugin = "libnccl-net-mesh.so";

fs::path own_folder() { return fs::path(own_program()).parent_path(); }

bool is_there(const fs::path& path) {
  std::error_code none;
  return fs::exists(path, none);
}

}  // namespace

std::string own_plugin_file() {
  const fs::path here = own_folder();
  for (const fs::path& path :
       {here / "../../plugin" / kPlugin, here / ".." / MESH_LIBRARY_FOLDER / kPlugin,
        here / "../lib" / kPlugin}) {
    if (is_there(path)) return path.lexically_normal().string();
  }
  return kPlugin;
}

std::string own_fabric_file(const std::string& name) {
  const fs::path here = own_folder();
  const fs::path installed = here / "../share/nccl-mesh/fabrics" / name;
  const fs::path& path = is_there(installed) ? installed : here / "../fabrics" / name;
  return path.lexically_normal().string();
}

}  // namespace mesh::driver
