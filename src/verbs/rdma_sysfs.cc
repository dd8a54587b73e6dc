#include "src/verbs/rdma_sysfs.h"

#include "src/base/small_file.h"
#include "src/verbs/gid_choice.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <memory>
#include <string_view>

namespace mesh::verbs {

namespace {
// A PCI function has the form "0000:01:00.0": domain, bus, device, function.
bool looks_like_pci_function(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  if (dot == std::string_view::npos || dot + 2 != name.size() || dot < 10) return false;
  if (name[dot - 3] != ':' || name[dot - 6] != ':') return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return c == ':' || c == '.' || std::isxdigit(static_cast<unsigned char>(c));
  });
}

// The nearest PCI function at or above the device. Soft-RoCE on a virtio interface lies one level
// below it, and on a bridge there is none.
std::string pci_ancestor(const std::string& link) {
  const std::unique_ptr<char, decltype(&::free)> resolved(::realpath(link.c_str(), nullptr),
                                                          &::free);
  std::string path = resolved ? resolved.get() : "";
  while (!path.empty()) {
    const std::size_t slash = path.rfind('/');
    if (slash == std::string::npos) return {};
    if (looks_like_pci_function(std::string_view(path).substr(slash + 1))) return path;
    path.resize(slash);
  }
  return {};
}
}  // namespace

DeviceEntry RdmaSysfs::device(const std::string& name) const {
  DeviceEntry entry;
  entry.name = name;
  entry.pci_path = pci_ancestor(device_folder(name) + "/device");
  if (!entry.pci_path.empty())
    entry.numa_node = static_cast<int>(read_number(entry.pci_path + "/numa_node").value_or(-1));
  for (const char* file : {"/sys_image_guid", "/node_guid"}) {
    if (entry.guid == 0)
      entry.guid = parse_guid(read_first_line(device_folder(name) + file).value_or(""));
  }
  entry.iwarp = read_first_line(device_folder(name) + "/node_type").value_or("").starts_with("4:");
  entry.physical_path = pci_ancestor(entry.pci_path + "/physfn");
  entry.guid =
      cable_guid(entry.guid, entry.physical_path.empty() ? entry.pci_path : entry.physical_path);
  return entry;
}

std::string RdmaSysfs::attribute(const GidSlot& slot, const char* kind) const {
  const std::string path = device_folder(slot.device) + "/ports/" + std::to_string(slot.port) +
                           "/gid_attrs/" + kind + "/";
  return read_first_line(path + std::to_string(slot.index)).value_or("");
}

std::optional<GidType> RdmaSysfs::gid_type(const GidSlot& slot) const {
  const std::string text = attribute(slot, "types");
  if (text == "RoCE v2") return GidType::RoceV2;
  if (text == "IB/RoCE v1") return GidType::RoceV1;
  return std::nullopt;
}

std::string RdmaSysfs::gid_netdev(const GidSlot& slot) const { return attribute(slot, "ndevs"); }

// The first GID of a port is its net device's. Only a device that spans the whole bond shows it
// there; the port of a leg shows the leg.
std::uint32_t RdmaSysfs::bond_speed_mbps(const std::string& device, int port) const {
  const std::string netdev = gid_netdev({.device = device, .port = port, .index = 0});
  const std::string folder = root_ + "/class/net/" + netdev;
  if (netdev.empty() || !read_first_line(folder + "/bonding/mode")) return 0;
  const long long speed = read_number(folder + "/speed").value_or(0);
  return speed > 0 && speed <= UINT32_MAX ? static_cast<std::uint32_t>(speed) : 0;
}

// The files by which NCCL's own transport finds nv_peer_mem, in two forms, and nvidia_peermem
// (gdr.cc).
bool RdmaSysfs::has_peer_memory() const {
  constexpr std::array kFiles{"/kernel/mm/memory_peers/nv_mem/version",
                              "/kernel/mm/memory_peers/nv_mem_nc/version",
                              "/module/nvidia_peermem/version"};
  return std::any_of(kFiles.begin(), kFiles.end(), [this](const char* file) {
    return ::access((root_ + file).c_str(), F_OK) == 0;
  });
}

std::uint64_t parse_guid(const std::string& text) noexcept {
  std::uint64_t guid = 0;
  int digits = 0;
  for (const char c : text) {
    if (c == ':') continue;
    if (!std::isxdigit(static_cast<unsigned char>(c)) || ++digits > 16) return 0;
    const int value = std::isdigit(static_cast<unsigned char>(c))
                          ? c - '0'
                          : std::tolower(static_cast<unsigned char>(c)) - 'a' + 10;
    guid = guid << 4 | static_cast<std::uint64_t>(value);
  }
  return digits == 16 ? guid : 0;
}

}  // namespace mesh::verbs
