#include "src/verbs/device_probe.h"

#include "src/verbs/handle.h"
#include "src/verbs/memory_hint.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace mesh::verbs {
namespace {

// The largest setting, then the largest value that keeps a mlx5 work request at four blocks, then
// values that other devices are known to take.
constexpr std::array<std::uint32_t, 5> kInlineTried{512, 220, 128, 96, kInlineNeeded};

DeviceGrant refused(const char* what, int error) {
  return {.refusal = fmt::format("cannot create a {}: {}{}", what, std::strerror(error),
                                 memory_hint(error)),
          .kind = error == ENOMEM ? RefusalKind::NoMemory : RefusalKind::Unusable};
}

DeviceGrant too_small(const std::string& what) {
  return {.refusal = what, .kind = RefusalKind::Limited};
}

// One probe of a device. Its objects go with it.
class DeviceProbe {
 public:
  DeviceProbe(Provider& provider, ibv_context* context, const DeviceWish& wish)
      : provider_(provider), context_(context), wish_(wish), depth_(wish.depth) {}

  DeviceGrant look(const ibv_device_attr& limits) {
    if (DeviceGrant told = look_at_limits(limits); !told.refusal.empty()) return told;
    pd_ = PdHandle(provider_, provider_.alloc_pd(context_));
    if (!pd_) {
      const int error = errno;  // it pins no memory
      return {.refusal =
                  fmt::format("cannot create a protection domain: {}", std::strerror(error))};
    }
    if (DeviceGrant queue = try_queue(); !queue.refusal.empty()) return queue;
    DeviceGrant grant = try_queue_pairs();
    if (!grant.refusal.empty()) return grant;
    const bool lowered = depth_ < wish_.depth || told_depth_ <= 0;
    grant.entries_max = told_entries_ > 0 ? told_entries_ : static_cast<int>(kQueueEntries);
    grant.depth_max =
        std::min(lowered ? static_cast<int>(depth_) : told_depth_, grant.entries_max / 2);
    return grant;
  }

 private:
  // A device may leave a limit at 0.
  DeviceGrant look_at_limits(const ibv_device_attr& limits) {
    const auto lacks = [](int limit, std::uint32_t needed) {
      return limit > 0 && static_cast<std::uint32_t>(limit) < needed;
    };
    if (lacks(limits.max_qp_wr, kDepthNeeded))
      return too_small(fmt::format("takes {} work requests in a queue, and {} are needed",
                                   limits.max_qp_wr, kDepthNeeded));
    if (lacks(limits.max_cqe, 2 * kDepthNeeded))
      return too_small(fmt::format("takes {} entries in a completion queue, and {} are needed",
                                   limits.max_cqe, 2 * kDepthNeeded));
    if (lacks(limits.max_sge, wish_.elements))
      return too_small(
          fmt::format("takes {} gather element in a work request, and relays need {} "
                      "(NCCL_MESH_RELAY=0 turns them off)",
                      limits.max_sge, wish_.elements));
    told_depth_ = limits.max_qp_wr;
    told_entries_ = limits.max_cqe;
    if (told_entries_ > 0) {
      // One completion queue has the completions of both queues of a queue pair.
      const int half = told_entries_ / 2;
      told_depth_ = told_depth_ > 0 ? std::min(told_depth_, half) : half;
    }
    if (told_depth_ > 0) depth_ = std::min(depth_, static_cast<std::uint32_t>(told_depth_));
    return {};
  }

  DeviceGrant try_queue() {
    std::uint32_t entries = kQueueEntries;
    if (told_entries_ > 0) entries = std::min(entries, static_cast<std::uint32_t>(told_entries_));
    for (;; entries /= 2) {
      cq_ = CqHandle(provider_, provider_.create_cq(context_, static_cast<int>(entries)));
      if (cq_) return {};
      const int error = errno;
      if (error != EINVAL || entries < 4 * kDepthNeeded)
        return refused(fmt::format("completion queue of {} entries", entries).c_str(), error);
      told_entries_ = static_cast<int>(entries / 2);
      depth_ = std::min(depth_, entries / 4);
    }
  }

  DeviceGrant try_queue_pairs() {
    for (;; depth_ /= 2) {
      int error = 0;
      for (const std::uint32_t tried : kInlineTried) {
        ibv_qp_init_attr attr = wanted(tried);
        const QpHandle qp(provider_, provider_.create_qp(pd_.get(), &attr));
        if (qp) return granted(attr.cap);
        error = errno;
      }
      if (error != EINVAL || depth_ < 2 * kDepthNeeded)
        return refused(fmt::format("reliable queue pair of {} work requests with {} bytes inline",
                                   depth_, kInlineNeeded)
                           .c_str(),
                       error);
    }
  }

  ibv_qp_init_attr wanted(std::uint32_t inline_bytes) const {
    ibv_qp_init_attr attr{};
    attr.send_cq = attr.recv_cq = cq_.get();
    attr.qp_type = IBV_QPT_RC;
    attr.cap = {.max_send_wr = depth_,
                .max_recv_wr = depth_,
                .max_send_sge = wish_.elements,
                .max_recv_sge = 1,
                .max_inline_data = inline_bytes};
    return attr;
  }

  // Some devices grant less than they were asked for, without an error.
  DeviceGrant granted(const ibv_qp_cap& cap) {
    if (cap.max_inline_data < kInlineNeeded)
      return too_small(fmt::format("grants {} bytes inline, and {} are needed", cap.max_inline_data,
                                   kInlineNeeded));
    const std::uint32_t depth = std::min(cap.max_send_wr, cap.max_recv_wr);
    if (depth < kDepthNeeded)
      return too_small(fmt::format("grants {} work requests in a queue, and {} are needed", depth,
                                   kDepthNeeded));
    if (cap.max_send_sge < wish_.elements || cap.max_recv_sge < 1)
      return too_small(
          fmt::format("grants {} gather elements and {} scatter elements in a work "
                      "request, and {} and 1 are needed",
                      cap.max_send_sge, cap.max_recv_sge, wish_.elements));
    depth_ = std::min(depth_, depth);
    return {.inline_bytes = cap.max_inline_data};
  }

  Provider& provider_;
  ibv_context* context_;
  const DeviceWish wish_;
  std::uint32_t depth_;
  int told_depth_ = 0, told_entries_ = 0;
  PdHandle pd_;
  CqHandle cq_;
};

}  // namespace

DeviceWish device_wish(const Settings& settings) noexcept {
  constexpr int kDepthMax = 4096;
  const int depth = std::max(settings.sq_depth, settings.rq_depth);
  return {.depth = static_cast<std::uint32_t>(
              std::clamp(depth, static_cast<int>(kDepthNeeded), kDepthMax)),
          // A relay sends a header and a payload in one work request.
          .elements = settings.relay == 0 ? 1u : 2u};
}

DeviceGrant probe_device(Provider& provider, ibv_context* context, const ibv_device_attr& limits,
                         const DeviceWish& wish) {
  return DeviceProbe(provider, context, wish).look(limits);
}

}  // namespace mesh::verbs
