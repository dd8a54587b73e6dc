#include "plugin/provider.h"

#include "src/base/log.h"
#include "src/soft/fabric_file.h"
#include "src/soft/null_provider.h"
#include "src/soft/soft_provider.h"
#include "src/verbs/rdma_provider.h"

#include <string_view>
#include <utility>

namespace mesh::plugin {

namespace {

constexpr std::string_view kRdma = "rdma";
constexpr std::string_view kSoftPrefix = "soft:";

soft::CopyMode copy_mode(std::string_view name) {
  if (name == "cma") return soft::CopyMode::Cma;
  if (name == "cells") return soft::CopyMode::Cells;
  return soft::CopyMode::Auto;
}

// Returns this host's name in the file. NCCL_MESH_HOST is meant for the file. NCCL_HOSTID has
// another purpose in NCCL, so it counts only if the file has that name.
std::string host_in(const soft::FabricFile& fabric, const Settings& settings) {
  if (!settings.host.empty()) return settings.host;
  return fabric.find_host(settings.host_id) >= 0 ? settings.host_id : std::string();
}

Result<std::unique_ptr<verbs::Provider>> open_soft(const std::string& path,
                                                   const Settings& settings) {
  Result<soft::FabricFile> fabric = soft::load(path);
  if (!fabric.ok()) return fabric.status();
  if (fabric->null) return soft::open_null(*fabric);
  soft::SoftOptions options;
  options.host = host_in(*fabric, settings);
  options.copy = copy_mode(settings.soft_copy);
  options.fabric = std::move(*fabric);
  Result<std::unique_ptr<soft::SoftProvider>> provider =
      soft::SoftProvider::open(std::move(options));
  if (!provider.ok()) return provider.status();
  return std::unique_ptr<verbs::Provider>(std::move(*provider));
}

}  // namespace

Result<std::unique_ptr<verbs::Provider>> open_provider(const Settings& settings,
                                                       std::string* no_rdma) {
  const std::string& fabric = settings.fabric;
  if (fabric == kRdma) return verbs::open_rdma(no_rdma);
  if (fabric.starts_with(kSoftPrefix))
    return open_soft(fabric.substr(kSoftPrefix.size()), settings);
  LOG_WARN("NCCL_MESH_FABRIC is \"{}\": neither rdma nor soft:FILE", fabric);
  return Errc::InvalidArgument;
}

}  // namespace mesh::plugin
