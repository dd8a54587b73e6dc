#pragma once
// The files of a host in a folder of its own, healthy until a test spoils one: a card whose two
// sockets each show two PCIe halves, NCCL for the loader and for torch, and nccl-mesh named by the
// environment. Thread: one owner.

#include "perf/mesh_doctor/finding.h"
#include "perf/mesh_doctor/host_facts.h"
#include "src/base/config.h"
#include "tests/unit/base/folder.h"

namespace mesh::doctor {

class PlantedHost {
 public:
  // Writes the files under `root`; empty: under a folder of its own.
  explicit PlantedHost(const std::string& root = {});

  void write(const std::string& file, const std::string& text) const;
  void remove(const std::string& file) const;
  void link(const std::string& file, const std::string& target) const;

  std::string port(const std::string& device) const;  // the folder of the port
  static std::string function(const std::string& pci);
  void remove_cards() const;
  void plant_gpu() const;

  // Returns the facts that the doctor reads, with every active port as a rail of the plugin.
  HostFacts facts() const;
  const std::string& root() const { return root_; }

  Environment environment;
  std::vector<std::string> no_rails;             // ports that the plugin does not take
  std::vector<std::string> unseen;               // ports of which it knows nothing
  std::map<std::string, std::string> addresses;  // by port, with prefixes
  int rail_mtu = 4096;
  int pointers = 1;

 private:
  void plant_half(const std::string& device, const std::string& pci, const std::string& netdev);

  testkit::Folder folder_;
  std::string root_;
};

std::vector<std::string> names_of(const std::vector<Finding>& findings);
// Returns the content of the loader's cache with one library in it.
std::string loader_cache(const std::string& name, const std::string& path);

}  // namespace mesh::doctor
