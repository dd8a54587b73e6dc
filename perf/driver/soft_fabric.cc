#include "perf/driver/soft_fabric.h"

#include "perf/driver/first_warning.h"
#include "src/base/random.h"
#include "src/base/small_file.h"
#include "src/soft/fabric_file.h"

#include <fmt/ranges.h>

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace mesh::driver {
namespace {

// The fabric's identity is made of the file's name and text, so the name must be this run's own.
UniqueFd private_copy(const std::string& text) {
  const std::string name =
      "fabric-" + std::to_string(::getpid()) + "-" + std::to_string(random_u64());
  UniqueFd copy(::memfd_create(name.c_str(), MFD_CLOEXEC));
  const ssize_t written = ::write(copy.get(), text.data(), text.size());
  if (written != static_cast<ssize_t>(text.size())) copy.reset();
  return copy;
}

void tell(const std::string& wrong) {
  std::fprintf(stderr, "%s: %s\n", program_invocation_short_name, wrong.c_str());
}

}  // namespace

Result<SoftFabric> SoftFabric::open(const std::string& file, const std::vector<std::string>& wanted,
                                    int ranks_per_host) {
  const Result<std::string> text = read_short_file(file, soft::kFileBytesMax);
  Result<soft::FabricFile> parsed = Errc::NotFound;
  const std::string wrong = first_warning([&] { parsed = soft::load(file); });
  if (text.ok() && parsed.ok()) return make_copy(*text, *parsed, wanted, ranks_per_host);
  tell(wrong);
  return parsed.ok() ? text.code() : parsed.code();
}

Result<SoftFabric> SoftFabric::make(const std::string& text, const std::vector<std::string>& wanted,
                                    int ranks_per_host) {
  Result<soft::FabricFile> parsed = Errc::NotFound;
  const std::string wrong = first_warning([&] { parsed = soft::parse(text); });
  if (parsed.ok()) return make_copy(text, *parsed, wanted, ranks_per_host);
  tell(wrong);
  return parsed.code();
}

Result<SoftFabric> SoftFabric::make_copy(const std::string& text, const soft::FabricFile& file,
                                         const std::vector<std::string>& wanted,
                                         int ranks_per_host) {
  if (file.null) {
    tell(
        "the fabric file is of a null fabric, which moves no data; perf/instructions/run counts "
        "over it");
    return Errc::InvalidArgument;
  }
  std::vector<std::string> names;
  for (const soft::HostSpec& host : file.hosts) names.push_back(host.name);
  for (auto host = wanted.begin(); host != wanted.end(); ++host) {
    if (std::find(names.begin(), names.end(), *host) == names.end()) {
      tell(fmt::format("host '{}' is not one of the fabric file's: {}", *host,
                       fmt::join(names, ", ")));
      return Errc::NotFound;
    }
    if (std::find(wanted.begin(), host, *host) != host) {
      tell(fmt::format("host '{}' is named twice; wanted: each host once", *host));
      return Errc::InvalidArgument;
    }
  }
  SoftFabric fabric;
  fabric.copy_ = private_copy(text);
  if (!fabric.copy_.valid()) return Errc::System;
  fabric.path_ =
      "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(fabric.copy_.get());
  fabric.ranks_per_host_ = static_cast<std::size_t>(ranks_per_host);
  for (const std::string& host : wanted.empty() ? names : wanted)
    fabric.hosts_.insert(fabric.hosts_.end(), fabric.ranks_per_host_, host);
  return fabric;
}

std::vector<std::pair<std::string, std::string>> SoftFabric::environment(std::size_t rank) const {
  return {{"NCCL_MESH_FABRIC", "soft:" + path_},
          {"NCCL_MESH_HOST", hosts_[rank]},
          {"LOCAL_RANK", std::to_string(rank % ranks_per_host_)},
          {"LOCAL_WORLD_SIZE", std::to_string(ranks_per_host_)},
          {"NCCL_SOCKET_IFNAME", "lo"}};
}

}  // namespace mesh::driver
