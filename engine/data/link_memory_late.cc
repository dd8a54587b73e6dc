// The memory of a link on a device that takes long to register it, and that the link can do
// without: the rail of a path that stands by.
#include "engine/data/device_context.h"
#include "engine/data/link_memory.h"

#include <algorithm>
#include <utility>

namespace mesh::engine {

std::unique_ptr<LinkMemory::Late> LinkMemory::begin_late(const Block& block,
                                                         DeviceContext& device) {
  auto late = std::make_unique<Late>(Late{.mr = std::make_shared<verbs::MrHandle>(), .call = {}});
  const auto work = [&device, mr = late->mr, memory = block.memory, bytes = block.bytes] {
    *mr = register_at(device, memory.get(), bytes);
  };
  late->call = PatientCall::begin({device, "ibv_reg_mr"}, work, [mr = late->mr] { mr->reset(); });
  return late;
}

bool LinkMemory::has_late() const noexcept {
  return std::any_of(keys_.begin(), keys_.end(),
                     [this](const Key& key) { return is_late(*key.device); });
}

bool LinkMemory::is_late(const DeviceContext& device) const noexcept {
  return std::any_of(blocks_.begin(), blocks_.end(), [&device](const auto& block) {
    const Region* const region = block == nullptr ? nullptr : region_of(*block, device);
    return region != nullptr && region->late != nullptr;
  });
}

std::vector<DeviceContext*> LinkMemory::take_late() {
  std::vector<DeviceContext*> whole;
  for (const auto& block : blocks_) {
    if (block == nullptr) continue;
    for (Region& region : block->regions) {
      if (region.late == nullptr || !region.late->call->over()) continue;
      set_region(*block, region, std::move(*region.late->mr));
      if (!lacks(*region.device)) whole.push_back(region.device);
    }
  }
  return whole;
}

}  // namespace mesh::engine
