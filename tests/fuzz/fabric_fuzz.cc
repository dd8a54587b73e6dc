// Parses fabric files. A file that parses is consistent: every index leads somewhere.
#include "src/soft/fabric_file.h"
#include "tests/fuzz/quiet_log.h"

namespace mesh {

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const Result<soft::FabricFile> file =
      soft::parse(std::string(reinterpret_cast<const char*>(data), size));
  if (!file.ok()) return 0;
  fuzz::expect(!file->hosts.empty() && file->hosts.size() <= soft::kHostsMax, "hosts out of range");
  for (std::size_t host = 0; host < file->hosts.size(); ++host) {
    fuzz::expect(file->find_host(file->hosts[host].name) == static_cast<int>(host),
                 "a host that is not found by its name");
    const std::vector<soft::CardSlotSpec>& slots = file->hosts[host].slots;
    for (const soft::CardSlotSpec& slot : slots)
      fuzz::expect(slot.gbps > 0, "a slot without a rate");
    for (const soft::NicSpec& nic : file->hosts[host].nics) {
      fuzz::expect(nic.slot >= -1 && nic.slot < static_cast<int>(slots.size()),
                   "a NIC in a slot that is not there");
      fuzz::expect(nic.link == -1 || static_cast<std::size_t>(nic.link) < file->links.size(),
                   "a NIC in no link");
      soft::NicRef found;
      fuzz::expect(file->find_gid(nic.gid, &found) && file->nic(found).address == nic.address,
                   "a NIC that is not found");
      fuzz::expect(!nic.pkeys.empty() && nic.lid <= soft::kLidsMax, "a port without partitions");
    }
  }
  for (const soft::LinkSpec& link : file->links) {
    fuzz::expect(!link.ends.empty() && link.ends.size() + link.routers.size() >= 2,
                 "a link of fewer than two ends");
    fuzz::expect(link.routers.empty() == (link.network < 0), "a router that joins nothing");
    for (const soft::NicRef& end : link.ends) {
      const auto host = static_cast<std::size_t>(end.host), nic = static_cast<std::size_t>(end.nic);
      fuzz::expect(host < file->hosts.size() && nic < file->hosts[host].nics.size(),
                   "an end that is no NIC");
    }
  }
  fuzz::expect(file->faults.size() <= soft::kFaultsMax, "faults out of range");
  return 0;
}

}  // namespace mesh
