#include "src/verbs/rail_traits.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>

namespace mesh::verbs {

namespace {

// The largest setting, then the largest value that keeps a mlx5 work request at four blocks, then
// values that other devices are known to take.
constexpr std::array<std::uint32_t, 5> kInlineTried{512, 220, 128, 96, kInlineNeeded};

// Returns the lower value. 0 means "unknown", which the engine then finds out for itself.
std::uint32_t lower_known(std::uint32_t a, std::uint32_t b) {
  if (a == 0 || b == 0) return std::max(a, b);
  return std::min(a, b);
}

}  // namespace

QueuePairProbe probe_queue_pair(Provider& provider, ibv_context* context) {
  errno = 0;
  const PdHandle pd(provider, provider.alloc_pd(context));
  const CqHandle cq(provider, pd ? provider.create_cq(context, 1) : nullptr);
  for (std::size_t i = 0; cq && i < kInlineTried.size(); ++i) {
    ibv_qp_init_attr attr{};
    attr.send_cq = attr.recv_cq = cq.get();
    attr.qp_type = IBV_QPT_RC;
    attr.cap = {.max_send_wr = 1,
                .max_recv_wr = 1,
                .max_send_sge = 1,
                .max_recv_sge = 1,
                .max_inline_data = kInlineTried[i]};
    const QpHandle qp(provider, provider.create_qp(pd.get(), &attr));
    if (qp) return {.inline_bytes = attr.cap.max_inline_data};
  }
  return {.error = errno != 0 ? errno : EOPNOTSUPP};
}

// Virtual functions of one port share its bus too, but are no halves of a cable.
std::uint32_t rails_of_cable(std::span<const Rail> rails, const Rail& rail) noexcept {
  const auto is_of_it = [&rail](const Rail& other) {
    return rail.info.guid == other.info.guid && rail.info.port == other.info.port &&
           rail.physical_path.empty() && other.physical_path.empty();
  };
  const auto count = std::count_if(rails.begin(), rails.end(), is_of_it);
  return std::max(static_cast<std::uint32_t>(count), 1u);
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

}  // namespace mesh::verbs
