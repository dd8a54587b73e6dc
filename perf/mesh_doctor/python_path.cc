#include "perf/mesh_doctor/python_path.h"

#include "perf/driver/world.h"

namespace mesh::doctor {
namespace {

using driver::variable;

std::string folder_of(const std::string& path) { return path.substr(0, path.rfind('/')); }
std::string name_of(const std::string& path) { return path.substr(path.rfind('/') + 1); }

std::string find_python(const Tree& tree, const Environment& environment) {
  for (const char* const name : {"python3", "python"}) {
    for (const std::string& folder : words_of(variable(environment, "PATH"), ':')) {
      if (tree.has(folder + "/" + name)) return folder + "/" + name;
    }
  }
  return {};
}

// Adds folders such as PREFIX/lib/python3.11/site-packages. A `version` of "python3" means any.
void add_libraries(const Tree& tree, const std::string& prefix, const std::string& version,
                   std::vector<std::string>& folders) {
  for (const std::string& name : tree.names(prefix + "/lib")) {
    const bool wanted =
        version == "python3" ? name.starts_with("python3") : name == version || name == "python3";
    if (!wanted) continue;
    for (const char* const kind : {"/site-packages", "/dist-packages"}) {
      const std::string folder = prefix + "/lib/" + name + kind;
      if (tree.has(folder)) folders.push_back(folder);
    }
  }
}

}  // namespace

std::vector<std::string> python_folders(const Tree& tree, const Environment& environment) {
  const std::string python = find_python(tree, environment);
  if (python.empty()) return {};
  std::vector<std::string> folders = words_of(variable(environment, "PYTHONPATH"), ':');
  std::string real = tree.resolved(python);
  std::string version = name_of(real);
  if (!version.starts_with("python3")) version = "python3";
  std::string prefix = folder_of(folder_of(python));
  if (tree.has(prefix + "/pyvenv.cfg")) {
    add_libraries(tree, prefix, version, folders);
    return folders;
  }
  if (!real.empty()) prefix = folder_of(folder_of(real));
  const std::string home = variable(environment, "HOME");
  if (!home.empty()) add_libraries(tree, home + "/.local", version, folders);
  if (prefix == "/usr") add_libraries(tree, "/usr/local", version, folders);
  add_libraries(tree, prefix, version, folders);
  return folders;
}

}  // namespace mesh::doctor
