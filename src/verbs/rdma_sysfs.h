#pragma once
// What the kernel says about RDMA devices beside the verbs calls. The root is a parameter so that
// tests lay out a tree. Thread: any. Bound: a few small files per call.

#include "src/verbs/provider.h"

#include <cstdint>
#include <optional>
#include <string>

namespace mesh::verbs {

class RdmaSysfs {
 public:
  explicit RdmaSysfs(std::string root) : root_(std::move(root)) {}

  DeviceEntry device(
      const std::string& name) const;  // fields stay empty where the files are missing

  struct GidSlot {
    std::string device;
    int port = 1;
    int index = 0;
  };
  std::optional<GidType> gid_type(const GidSlot& slot) const;  // none: not in use or not told
  std::string gid_netdev(const GidSlot& slot) const;           // empty: not visible

 private:
  std::string device_folder(const std::string& name) const {
    return root_ + "/class/infiniband/" + name;
  }
  std::string attribute(const GidSlot& slot, const char* kind) const;

  std::string root_;
};

// "0015:5dff:fe33:ff42" as the kernel prints a GUID; 0: malformed.
std::uint64_t parse_guid(const std::string& text) noexcept;

}  // namespace mesh::verbs
