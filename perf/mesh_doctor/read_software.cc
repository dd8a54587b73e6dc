#include "perf/mesh_doctor/read_host.h"

#include "perf/driver/own_process.h"
#include "perf/driver/world.h"
#include "perf/mesh_doctor/libraries.h"

#include <strings.h>

#include <algorithm>

namespace mesh::doctor {
namespace {

using driver::variable;

constexpr const char* kNccl = "libnccl.so.2";
constexpr const char* kEnvironment = "the environment";

// Adds the settings of a file that NCCL reads. Skips lines without "=" or with "#" in front.
void add_file(const Tree& tree, const std::string& file, std::vector<SettingFacts>& settings) {
  for (std::string line : tree.lines(file)) {
    if (line.ends_with('\r')) line.pop_back();
    const std::size_t equals = line.find('=');
    if (line.starts_with('#') || equals == std::string::npos) continue;
    settings.push_back(
        {.name = line.substr(0, equals), .value = line.substr(equals + 1), .source = file});
  }
}

// Returns all settings, the effective ones first: environment, the user's file, the host's file.
std::vector<SettingFacts> all_settings(const Tree& tree, const Environment& environment) {
  std::vector<SettingFacts> settings;
  for (const auto& [name, value] : environment) {
    if (name.starts_with("NCCL_"))
      settings.push_back({.name = name, .value = value, .source = kEnvironment});
  }
  const std::string named = variable(environment, "NCCL_CONF_FILE");
  const std::string home = variable(environment, "HOME");
  if (!named.empty()) {
    add_file(tree, named, settings);
  } else if (!home.empty()) {
    add_file(tree, home + "/.nccl.conf", settings);
  }
  add_file(tree, "/etc/nccl.conf", settings);
  return settings;
}

void read_version(const Tree& tree, LibraryFacts& library) {
  library.version = nccl_version(tree.at(library.file));
}

void find_nccl(const Tree& tree, const Environment& environment, SoftwareFacts& facts) {
  std::optional<LibraryFacts> loader;
  std::string preloads = variable(environment, "LD_PRELOAD");
  std::replace(preloads.begin(), preloads.end(), ' ', ':');
  for (const std::string& name : words_of(preloads, ':')) {
    if (loader || name.substr(name.rfind('/') + 1).rfind("libnccl.so", 0) != 0) continue;
    loader = find_library(tree, environment, name);
    if (loader) loader->found_by = "LD_PRELOAD";
  }
  if (!loader) loader = find_library(tree, environment, kNccl);
  if (loader) facts.nccl.push_back(*loader);
  for (const std::string& folder : python_folders(tree, environment)) {
    for (const char* const part : {"/nvidia/nccl/lib/", "/torch/lib/"}) {
      const std::string path = folder + part + kNccl;
      if (!tree.has(path)) continue;
      const bool torch = tree.has(folder + "/torch");
      facts.nccl.push_back({.found_by = torch ? "torch" : "Python's package nvidia-nccl",
                            .path = path,
                            .file = tree.resolved(path),
                            .version = {}});
    }
  }
  for (LibraryFacts& library : facts.nccl) read_version(tree, library);
}

// Finds a plugin as NCCL reads its name: a file of the loader's, or a short name for one.
std::optional<LibraryFacts> find_plugin(const Tree& tree, const Environment& environment,
                                        const std::string& name) {
  auto found = find_library(tree, environment, name);
  const bool is_file =
      name.find('/') != std::string::npos || (name.starts_with("lib") && name.ends_with(".so"));
  if (!found && !is_file) found = find_library(tree, environment, "libnccl-net-" + name + ".so");
  return found;
}

void find_plugins(const Tree& tree, const Environment& environment, SoftwareFacts& facts) {
  const std::string chosen = variable(environment, "NCCL_NET_PLUGIN");
  const bool off = environment.contains("NCCL_NET_PLUGIN") && takes_empty_for_none(facts.nccl);
  if (::strcasecmp(chosen.c_str(), "none") == 0 || (chosen.empty() && off)) return;
  std::vector<std::string> names = words_of(chosen, ',');
  if (chosen.empty()) names = {"libnccl-net.so"};
  for (const std::string& name : names) {
    auto plugin = find_plugin(tree, environment, name);
    if (plugin) {
      plugin->ours = is_our_plugin(tree.at(plugin->file));
      facts.plugins.push_back(std::move(*plugin));
    } else if (!chosen.empty()) {
      facts.missing_plugins.push_back(name);
    }
  }
}

// Finds the drivers of libibverbs, such as libmlx5-rdmav34.so.
std::vector<std::string> find_providers(const Tree& tree) {
  std::vector<std::string> files;
  for (const char* const folder :
       {"/usr/lib/x86_64-linux-gnu/libibverbs/", "/usr/lib/aarch64-linux-gnu/libibverbs/",
        "/usr/lib64/libibverbs/", "/usr/lib/libibverbs/"}) {
    for (const std::string& name : tree.names(folder)) {
      if (name.find("-rdmav") != std::string::npos) files.push_back(folder + name);
    }
  }
  return files;
}

}  // namespace

Environment with_conf_files(const Tree& tree, Environment environment) {
  for (const SettingFacts& each : all_settings(tree, environment))
    environment.emplace(each.name, each.value);
  return environment;
}

std::string plugin_of_job(const Tree& tree, const Environment& environment) {
  SoftwareFacts facts;
  const Environment whole = with_conf_files(tree, environment);
  find_nccl(tree, whole, facts);
  find_plugins(tree, whole, facts);
  const bool ours = !facts.plugins.empty() && facts.plugins.front().ours;
  return ours && tree.whole_machine() ? facts.plugins.front().file : driver::own_plugin_file();
}

SoftwareFacts read_software(const Tree& tree, const Environment& environment) {
  SoftwareFacts facts;
  facts.settings = all_settings(tree, environment);
  const Environment whole = with_conf_files(tree, environment);
  find_nccl(tree, whole, facts);
  find_plugins(tree, whole, facts);
  facts.verbs_providers = find_providers(tree);
  return facts;
}

}  // namespace mesh::doctor
