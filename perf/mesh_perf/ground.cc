#include "perf/mesh_perf/ground.h"

#include "perf/driver/bootstrap.h"

#include <algorithm>
#include <filesystem>

namespace mesh::perf {
namespace {

constexpr char kSoftRoce = 's';
constexpr char kOtherRdma = 'r';
constexpr char kEmulated = 'e';

// Returns the devices of all rails, because every rail carries a share of the data, whichever
// device the connections are opened on. A device that cannot be asked about has an empty name.
std::vector<std::string> device_names(driver::Communicator& communicator) {
  std::vector<std::string> names;
  for (int device = 0; device < communicator.device_count(); ++device) {
    driver::NetProperties properties;
    const bool known = communicator.api().properties(device, &properties) == driver::kNetSuccess;
    names.push_back(known ? properties.name.substr(0, properties.name.find(':')) : std::string());
  }
  return names;
}

}  // namespace

std::string Ground::sentence() const {
  if (!software_fabric.empty())
    return "software fabric on this host, not RDMA (" + software_fabric + ")";
  std::string kind;
  if (soft_roce) kind = other_rdma ? "some rails soft-RoCE" : "soft-RoCE";
  if (emulated) kind += kind.empty() ? "emulated" : ", emulated";
  return kind.empty() ? "rdma" : "rdma (" + kind + ")";
}

bool is_soft_roce(const std::string& device, const std::string& class_directory) {
  const std::filesystem::path entry = std::filesystem::path(class_directory) / device;
  std::error_code error;
  if (device.empty() || !std::filesystem::exists(entry, error)) return false;
  if (std::filesystem::exists(entry / "parent", error)) return true;
  return !std::filesystem::exists(entry / "device", error) && device.starts_with("rxe");
}

std::string kinds_of(const std::vector<std::string>& devices, const std::string& class_directory) {
  std::string kinds;
  for (const std::string& device : devices)
    kinds += is_soft_roce(device, class_directory) ? kSoftRoce : kOtherRdma;
  return kinds;
}

void add_kinds(const std::vector<std::string>& of_ranks, Ground& ground) {
  const auto any = [&](char kind) {
    return std::any_of(of_ranks.begin(), of_ranks.end(),
                       [&](const std::string& one) { return one.find(kind) != std::string::npos; });
  };
  ground.soft_roce = any(kSoftRoce);
  ground.other_rdma = any(kOtherRdma);
  ground.emulated = any(kEmulated);
}

bool find_ground(const Options& options, const Team& team, Ground& ground) {
  ground.world = team.world();
  ground.device = team.communicator->properties().name;
  if (options.soft()) ground.software_fabric = options.fabric.substr(options.fabric.rfind('/') + 1);
  std::string own;
  if (!options.soft()) own = kinds_of(device_names(*team.communicator));
  if (driver::switched_on(process_environment(), "MESH_LAB")) own += kEmulated;
  const auto all = team.bootstrap->all_gather(own);
  if (!all.ok()) return false;
  add_kinds(all.value(), ground);
  return true;
}

}  // namespace mesh::perf
