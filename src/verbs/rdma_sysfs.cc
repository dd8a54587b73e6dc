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

// Returns what a PCIe link carries each way in Mb/s, or 0 if the function has none. A lane of 32
// GT/s carries 27 Gb/s of data (4 lanes of a ConnectX-7: 109 Gb/s measured): the line code takes 2
// of 130 bits from 8 GT/s on and 2 of 10 below, and the headers of packets take the rest.
std::uint32_t pcie_link_mbps(const std::string& function) {
  const std::string speed = read_first_line(function + "/current_link_speed").value_or("");
  const double giga = std::strtod(speed.c_str(), nullptr);  // "16.0 GT/s PCIe"
  const long long lanes = read_number(function + "/current_link_width").value_or(0);
  constexpr long long kLanesMax = 32;
  constexpr double kGigaMax = 1000, kPacketShare = 0.865;
  if (!(giga > 0 && giga <= kGigaMax) || lanes <= 0 || lanes > kLanesMax) return 0;
  const double code = giga < 8 ? 8.0 / 10 : 128.0 / 130;
  return static_cast<std::uint32_t>(giga * 1000 * code * kPacketShare * static_cast<double>(lanes));
}

// Sets the narrowest link between the device and the root of its PCI tree. Of equal ones it takes
// the one next to the root, which the most devices share.
void read_slot(DeviceEntry* entry) {
  std::string path = entry->pci_path;
  for (std::size_t slash = path.rfind('/'); slash != std::string::npos; slash = path.rfind('/')) {
    const std::string name = path.substr(slash + 1);
    if (!looks_like_pci_function(name)) return;
    const std::uint32_t mbps = pcie_link_mbps(path);
    if (mbps != 0 && (entry->slot_mbps == 0 || mbps <= entry->slot_mbps)) {
      entry->slot = name.substr(0, name.rfind('.'));  // all functions of a device share its link
      entry->slot_mbps = mbps;
    }
    path.resize(slash);
  }
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
  read_slot(&entry);
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
