#pragma once
// Reads what the kernel says about RDMA devices beside the verbs calls. The root is a parameter, so
// that tests can lay out a tree. Thread: any. Bound: a few small files for each call.

#include "src/verbs/provider.h"

#include <cstdint>
#include <optional>
#include <string>

namespace mesh::verbs {

class RdmaSysfs {
 public:
  explicit RdmaSysfs(std::string root) : root_(std::move(root)) {}

  // Reads one device. Fields stay empty if their files are missing.
  DeviceEntry device(const std::string& name) const;

  struct GidSlot {
    std::string device;
    int port = 1;
    int index = 0;
  };
  std::optional<GidType> gid_type(const GidSlot& slot) const;  // none: unused or unknown
  std::string gid_netdev(const GidSlot& slot) const;           // empty: not visible
  // Returns the speed of the bond that the port's net device is, or 0 if it is none.
  std::uint32_t bond_speed_mbps(const std::string& device, int port) const;
  // Returns true if a module is loaded that tells the kernel where the memory of GPUs lies.
  bool has_peer_memory() const;

 private:
  std::string device_folder(const std::string& name) const {
    return root_ + "/class/infiniband/" + name;
  }
  std::string attribute(const GidSlot& slot, const char* kind) const;

  std::string root_;
};

// Parses a GUID as the kernel prints it, "0015:5dff:fe33:ff42". Returns 0 if it is malformed.
std::uint64_t parse_guid(const std::string& text) noexcept;

}  // namespace mesh::verbs
