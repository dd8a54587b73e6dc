#include "perf/mesh_perf/ground.h"

#include "perf/driver/bootstrap.h"

#include <algorithm>
#include <filesystem>

namespace mesh::perf {
namespace {

std::string device_of(const driver::Communicator& communicator) {
  const std::string& name = communicator.properties().name;
  return name.substr(0, name.find(':'));
}

}  // namespace

std::string Ground::sentence() const {
  if (!software_fabric.empty()) return "software fabric on this host, not RDMA (" + software_fabric + ")";
  if (soft_roce) return emulated ? "rdma (soft-RoCE, emulated)" : "rdma (soft-RoCE)";
  return emulated ? "rdma (emulated)" : "rdma";
}

bool is_soft_roce(const std::string& device, const std::string& class_directory) {
  const std::filesystem::path entry = std::filesystem::path(class_directory) / device;
  std::error_code error;
  if (device.empty() || !std::filesystem::exists(entry, error)) return false;
  if (std::filesystem::exists(entry / "parent", error)) return true;
  return !std::filesystem::exists(entry / "device", error) && device.starts_with("rxe");
}

bool find_ground(const Options& options, const Team& team, Ground& ground) {
  ground.world = team.world();
  ground.device = team.communicator->properties().name;
  if (options.soft()) ground.software_fabric = options.fabric.substr(options.fabric.rfind('/') + 1);
  std::string own;
  if (!options.soft() && is_soft_roce(device_of(*team.communicator))) own += 's';
  if (driver::switched_on(process_environment(), "MESH_LAB")) own += 'e';
  const auto all = team.bootstrap->all_gather(own);
  if (!all.ok()) return false;
  const auto any = [&](char what) {
    return std::any_of(all.value().begin(), all.value().end(),
                       [&](const std::string& one) { return one.find(what) != std::string::npos; });
  };
  ground.soft_roce = any('s');
  ground.emulated = any('e');
  return true;
}

}  // namespace mesh::perf
