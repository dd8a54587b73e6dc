#include "src/soft/nic_core.h"

namespace mesh::soft {

namespace {
const LinkSpec* link_of(const FabricFile& fabric, const NicSpec& nic) {
  return nic.link < 0 ? nullptr : &fabric.links[static_cast<std::size_t>(nic.link)];
}
const NicSpec& nic_of(const FabricFile& fabric, NicRef ref) {
  return fabric.hosts[static_cast<std::size_t>(ref.host)].nics[static_cast<std::size_t>(ref.nic)];
}
}  // namespace

NicCore::NicCore(const NicOptions& options)
    : self(options.self),
      fabric(*options.fabric),
      spec(nic_of(fabric, self)),
      link(link_of(fabric, spec)),
      faults(*options.faults),
      board(*options.board),
      bells(board.nic(self.nic)),
      clock(options.clock),
      cpu(*options.cpu),
      wire(link, spec, fabric.costs, *options.transmitter),
      modelled(wire.modelled()),
      lid(spec.lid) {}

}  // namespace mesh::soft
