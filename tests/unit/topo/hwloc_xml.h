#pragma once
// The hwloc XML of a host that does not exist: packages with one NUMA node each, and PCI trees.
// Thread: one owner. Bound: 64 cores.

#include "tests/prelude.h"

namespace mesh::testkit {

inline constexpr int kNicClass = 0x0200;
inline constexpr int kGpuClass = 0x0302;
inline constexpr int kVgaClass = 0x0300;

class HwlocXml {
 public:
  explicit HwlocXml(int packages, int cores_each = 2) : packages_(packages), cores_(cores_each) {}

  // ---- A PCI tree, built from the inside out: each function returns the text of one object.
  struct Function {
    const char* address = "";
    int pci_class = kNicClass;
    double gbytes_per_s = 0;   // its link's
    const char* os_name = "";  // set for a GPU
    const char* vendor = "10de";
  };
  std::string device(const Function& function) {
    const std::string os = *function.os_name == '\0'
                               ? ""
                               : fmt::format(R"(<object type="OSDev" gp_index="{}" name="{}" )"
                                             R"(osdev_type="1"/>)",
                                             ++gp_index_, function.os_name);
    return fmt::format(
        R"(<object type="PCIDev" gp_index="{}" pci_busid="{}" )"
        R"(pci_type="{:04x} [{}:2330] [0000:0000] 00" pci_link_speed="{:.6f}">{}</object>)",
        ++gp_index_, function.address, function.pci_class, function.vendor, function.gbytes_per_s,
        os);
  }
  struct Port {
    const char* address = "";
    double gbytes_per_s = 0;
  };
  std::string bridge(const Port& port, const std::string& below) {
    return fmt::format(
        R"(<object type="Bridge" gp_index="{}" bridge_type="1-1" depth="1" )"
        R"(bridge_pci="{}:[{}-{}]" pci_busid="{}" pci_type="0604 [1000:c030] [0000:0000] 00" )"
        R"(pci_link_speed="{:.6f}">{}</object>)",
        ++gp_index_, std::string(port.address, 4), "00", "ff", port.address, port.gbytes_per_s,
        below);
  }
  std::string host_bridge(const char* domain, const std::string& below) {
    return fmt::format(R"(<object type="Bridge" gp_index="{}" bridge_type="0-1" depth="0" )"
                       R"(bridge_pci="{}:[00-ff]">{}</object>)",
                       ++gp_index_, domain, below);
  }

  // ---- The host. `below` has the host bridges of each package; further texts belong to no
  // package.
  template <typename... Texts>
  std::string host(Texts... below) {
    const std::string trees[] = {std::move(below)...};
    std::string inside;
    for (int i = 0; i < packages_; ++i)
      inside += package(i, i < static_cast<int>(sizeof...(below)) ? trees[i] : "");
    for (int i = packages_; i < static_cast<int>(sizeof...(below)); ++i) inside += trees[i];
    const std::string sets = sets_of({0, packages_ * cores_}, {0, packages_});
    return fmt::format(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n"
        R"(<topology version="2.0"><object type="Machine" os_index="0" {} )"
        R"(allowed_cpuset="{}" allowed_nodeset="{}" gp_index="1">{}</object></topology>)",
        sets, mask({0, packages_ * cores_}), mask({0, packages_}), inside);
  }

 private:
  struct Range {
    int first = 0, count = 0;
  };
  static std::string mask(const Range& range) {
    const std::uint64_t bits = (range.count >= 64 ? ~0ull : (1ull << range.count) - 1)
                               << range.first;
    return fmt::format("0x{:08x},0x{:08x}", bits >> 32, bits & 0xffffffff);
  }
  static std::string sets_of(const Range& cpus, const Range& nodes) {
    return fmt::format(R"(cpuset="{0}" complete_cpuset="{0}" nodeset="{1}" complete_nodeset="{1}")",
                       mask(cpus), mask(nodes));
  }

  std::string package(int index, const std::string& below) {
    const Range cpus{index * cores_, cores_}, node{index, 1};
    std::string text = fmt::format(R"(<object type="Package" os_index="{}" {} gp_index="{}">)",
                                   index, sets_of(cpus, node), ++gp_index_);
    text += fmt::format(
        R"(<object type="NUMANode" os_index="{}" {} gp_index="{}" local_memory="1073741824"/>)",
        index, sets_of(cpus, node), ++gp_index_);
    for (int core = 0; core < cores_; ++core) {
      const int cpu = index * cores_ + core;
      const std::string sets = sets_of({cpu, 1}, node);
      text += fmt::format(R"(<object type="Core" os_index="{}" {} gp_index="{}">)", cpu, sets,
                          ++gp_index_);
      text += fmt::format(R"(<object type="PU" os_index="{}" {} gp_index="{}"/></object>)", cpu,
                          sets, ++gp_index_);
    }
    return text + below + "</object>";
  }

  const int packages_, cores_;
  int gp_index_ = 1;
};

}  // namespace mesh::testkit
