#include "plugin/properties.h"

#include <mesh/channel.h>
#include <mesh/policy.h>

#include <mutex>
#include <string>
#include <unordered_set>

namespace mesh::plugin {

namespace {

// NCCL's field is char*, though NCCL only reads it. Elements of an unordered_set never move.
char* kept_for_ever(const std::string& text) {
  static std::mutex mutex;
  static auto* const kept = new std::unordered_set<std::string>;
  const std::lock_guard lock(mutex);
  return const_cast<char*>(kept->insert(text).first->c_str());
}

}  // namespace

nccl::NewestProperties properties_of(const RailInfo& rail, int device) {
  nccl::NewestProperties properties{};
  properties.name = kept_for_ever(rail.name);
  properties.pciPath = rail.pci_path.empty() ? nullptr : kept_for_ever(rail.pci_path);
  properties.guid = rail.guid;
  properties.ptrSupport = NCCL_PTR_HOST | (rail.peer_memory ? NCCL_PTR_CUDA : 0) |
                          (rail.dma_buffers ? NCCL_PTR_DMABUF : 0);
  properties.regIsGlobal = 0;  // a registration belongs to the rails of one channel's link
  properties.forceFlush = 0;   // NCCL knows which GPUs need flushes
  properties.speed = static_cast<int>(rail.speed_mbps);
  properties.port = rail.port;
  // NCCL drops fractions of a microsecond (topo.cc), and counts the latency twice for Simple.
  properties.latency = 0;
  properties.maxComms = static_cast<int>(kChannelsMax);
  properties.maxRecvs = static_cast<int>(kGroupMax);
  properties.netDeviceType = NCCL_NET_DEVICE_HOST;
  properties.netDeviceVersion = NCCL_NET_DEVICE_INVALID_VERSION;
  properties.vProps.ndevs = 1;
  properties.vProps.devs[0] = device;
  properties.maxP2pBytes = NCCL_MAX_NET_SIZE_BYTES;
  properties.maxCollBytes = NCCL_MAX_NET_SIZE_BYTES;
  properties.maxMultiRequestSize = 1;
  static_assert(kUnassigned == NCCL_NET_ID_UNDEF);
  properties.railId = rail.rail_id;
  properties.planeId = rail.plane_id;
  return properties;
}

}  // namespace mesh::plugin
