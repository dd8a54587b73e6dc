#include "perf/driver/soft_fabric.h"

#include "src/base/random.h"

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <sstream>

namespace mesh::driver {
namespace {

// Reads only the names. The fabric itself validates the rest when the ranks open it.
std::vector<std::string> host_names(const nlohmann::json& root) {
  std::vector<std::string> names;
  if (!root.is_object() || !root.contains("hosts") || !root["hosts"].is_array()) return names;
  for (const nlohmann::json& host : root["hosts"]) {
    if (host.is_object() && host.contains("name") && host["name"].is_string())
      names.push_back(host["name"]);
  }
  return names;
}

// The fabric's identity is made of the file's name and text, so the name must be this run's own.
UniqueFd private_copy(const std::string& text) {
  const std::string name =
      "fabric-" + std::to_string(::getpid()) + "-" + std::to_string(random_u64());
  UniqueFd copy(::memfd_create(name.c_str(), MFD_CLOEXEC));
  const ssize_t written = ::write(copy.get(), text.data(), text.size());
  if (written != static_cast<ssize_t>(text.size())) copy.reset();
  return copy;
}

}  // namespace

Result<SoftFabric> SoftFabric::open(const std::string& file,
                                    const std::vector<std::string>& wanted) {
  std::ifstream stream(file);
  std::stringstream text;
  text << stream.rdbuf();
  if (!stream.is_open() || text.str().empty()) {
    std::fprintf(stderr, "%s: fabric file %s cannot be read or is empty\n",
                 program_invocation_short_name, file.c_str());
    return Errc::NotFound;
  }
  return make(text.str(), wanted);
}

Result<SoftFabric> SoftFabric::make(const std::string& text,
                                    const std::vector<std::string>& wanted) {
  const nlohmann::json root = nlohmann::json::parse(text, nullptr, false);
  if (root.is_object() && root.contains("null")) {
    std::fprintf(stderr,
                 "%s: the fabric file is of a null fabric, which moves no data; "
                 "perf/instructions/run counts over it\n",
                 program_invocation_short_name);
    return Errc::InvalidArgument;
  }
  const std::vector<std::string> names = host_names(root);
  if (names.empty()) {
    std::fprintf(stderr, "%s: the fabric file names no host\n", program_invocation_short_name);
    return Errc::InvalidArgument;
  }
  for (const std::string& host : wanted) {
    if (std::find(names.begin(), names.end(), host) != names.end()) continue;
    std::fprintf(stderr, "%s: host '%s' is not one of the fabric file's: %s\n",
                 program_invocation_short_name, host.c_str(),
                 fmt::format("{}", fmt::join(names, ", ")).c_str());
    return Errc::NotFound;
  }
  SoftFabric fabric;
  fabric.copy_ = private_copy(text);
  if (!fabric.copy_.valid()) return Errc::System;
  fabric.path_ =
      "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(fabric.copy_.get());
  fabric.hosts_ = wanted.empty() ? names : wanted;
  return fabric;
}

std::vector<std::pair<std::string, std::string>> SoftFabric::environment(std::size_t rank) const {
  return {{"NCCL_MESH_FABRIC", "soft:" + path_},
          {"NCCL_MESH_HOST", hosts_[rank]},
          {"NCCL_SOCKET_IFNAME", "lo"}};
}

}  // namespace mesh::driver
