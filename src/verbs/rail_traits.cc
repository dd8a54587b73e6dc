#include "src/verbs/rail_traits.h"

#include "src/base/log.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

namespace mesh::verbs {
namespace {

// Returns the lower value. 0 means "unknown", which the engine then finds out for itself.
std::uint32_t lower_known(std::uint32_t a, std::uint32_t b) {
  if (a == 0 || b == 0) return std::max(a, b);
  return std::min(a, b);
}

// Returns the errno value that says that the device takes no DMA buffers, or 0 if it may take them:
// any other error, as a rule EBADF, comes from the descriptor, which is none.
int refusal_of_buffers(Provider& provider, const Rail& rail) {
  const PdHandle pd(provider, provider.alloc_pd(rail.context.get()));
  if (!pd) return errno != 0 ? errno : ENOMEM;
  errno = 0;
  const MrHandle mr(provider, provider.reg_dmabuf_mr(pd.get(), {}, 0));
  return errno == EOPNOTSUPP || errno == EPROTONOSUPPORT ? errno : 0;
}

const char* name_of(const RailInfo& info) {
  if (info.dma_buffers) return info.peer_memory ? "DMA buffers and peer memory" : "DMA buffers";
  return info.peer_memory ? "peer memory" : "host memory only";
}

}  // namespace

std::uint32_t rails_of_cable(std::span<const Rail> rails, const Rail& rail,
                             std::uint64_t among) noexcept {
  std::uint32_t count = 0;
  for (std::size_t i = 0; i < rails.size(); ++i) {
    const Rail& other = rails[i];
    if ((among >> i & 1) == 0 || rail.info.guid == 0) continue;
    if (rail.info.guid == other.info.guid && rail.info.port == other.info.port) ++count;
  }
  return std::max(count, 1u);
}

FabricTraits traits_of(const char* fabric, std::span<const Rail> rails) {
  FabricTraits traits;
  traits.fabric = fabric;
  traits.rails = static_cast<std::uint32_t>(rails.size());
  for (const Rail& rail : rails) {
    traits.devices.push_back(rail.info.device);
    traits.speed_mbps = lower_known(traits.speed_mbps, rail.info.speed_mbps);
    traits.mtu = lower_known(traits.mtu, rail.info.mtu);
    traits.inline_bytes_max = lower_known(traits.inline_bytes_max, rail.inline_bytes_max);
    traits.qp_wr_max =
        lower_known(traits.qp_wr_max, static_cast<std::uint32_t>(std::max(rail.qp_wr_max, 0)));
    traits.message_bytes_max = lower_known(traits.message_bytes_max, rail.message_bytes_max);
  }
  std::sort(traits.devices.begin(), traits.devices.end());
  traits.devices.erase(std::unique(traits.devices.begin(), traits.devices.end()),
                       traits.devices.end());
  return traits;
}

void ask_device_memory(Provider& provider, const Settings& settings, Rail& rail) {
  if (settings.gdr == "off") return;
  const int refusal = refusal_of_buffers(provider, rail);
  rail.info.dma_buffers = refusal == 0;
  rail.info.peer_memory = provider.has_peer_memory(rail.context.get());
  LOG_DETAIL("rail {}: {}{}{}", rail.info.name, name_of(rail.info),
             refusal == 0 ? "" : std::string("; no DMA buffers: ") + std::strerror(refusal),
             rail.info.peer_memory ? "" : "; no module of peer memory is loaded");
}

void level_device_memory(std::span<Rail> rails) {
  const auto all = [&](bool RailInfo::*ability) {
    return std::all_of(rails.begin(), rails.end(),
                       [=](const Rail& rail) { return rail.info.*ability; });
  };
  const bool dma_buffers = all(&RailInfo::dma_buffers), peer_memory = all(&RailInfo::peer_memory);
  for (Rail& rail : rails) {
    if (rail.info.dma_buffers != dma_buffers || rail.info.peer_memory != peer_memory)
      LOG_INFO("rail {}: GPU memory is used only as every rail can, so part of this is not used",
               rail.info.name);
    rail.info.dma_buffers = dma_buffers;
    rail.info.peer_memory = peer_memory;
  }
}

}  // namespace mesh::verbs
