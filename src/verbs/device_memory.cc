#include "src/verbs/device_memory.h"

#include "src/base/log.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

namespace mesh::verbs {

namespace {

// Returns why the device takes no DMA buffers, an errno value, or 0 if it takes them: it has then
// looked at the descriptor, and failed with EBADF.
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

void find_device_memory(Provider& provider, const Settings& settings, std::span<Rail> rails) {
  if (settings.gdr == "off") return;
  for (Rail& rail : rails) {
    const int refusal = refusal_of_buffers(provider, rail);
    rail.info.dma_buffers = refusal == 0;
    rail.info.peer_memory = provider.has_peer_memory(rail.context.get());
    LOG_INFO("rail {}: {}{}{}", rail.info.name, name_of(rail.info),
             refusal == 0 ? "" : std::string("; no DMA buffers: ") + std::strerror(refusal),
             rail.info.peer_memory ? "" : "; no module of peer memory is loaded");
  }
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
