#include "src/base/nccl_table.h"

#include <array>

namespace mesh {

namespace {

constexpr const char* kSeeAbove = "see the table above";
constexpr const char* kSpreads =
    "stripes go to the path that will be free first, by bytes and speed";
constexpr const char* kLatency = "no message is timed; see `NCCL_MESH_LATENCY`";
constexpr const char* kAlwaysOn = "a lost path is replaced and opened again without a setting";

using enum Standing;

// In alphabetical order.
constexpr std::array kNcclTable{
    NcclSetting{"NCCL_IB_ADAPTIVE_ROUTING", "1 on InfiniBand", Honoured, kSeeAbove},
    NcclSetting{"NCCL_IB_ADDR_FAMILY", "AF_INET", Honoured, kSeeAbove},
    NcclSetting{"NCCL_IB_ADDR_RANGE", "unset", Honoured, kSeeAbove},
    NcclSetting{"NCCL_IB_AR_THRESHOLD", "8192", Honoured, kSeeAbove},
    NcclSetting{"NCCL_IB_DATA_DIRECT", "1", NotBuilt,
                "it is mlx5's own call, for cards with a second way into GPU memory; GPU memory is "
                "registered by the call that every device has"},
    NcclSetting{"NCCL_IB_DEVICE_PCI_ORDER", "1", Meaningless,
                "rails are always in the order of their PCI addresses"},
    NcclSetting{"NCCL_IB_DISABLE", "0", Meaningless,
                "it turns off NCCL's own transport; `NCCL_NET_PLUGIN` and `NCCL_NET` choose this "
                "one"},
    NcclSetting{"NCCL_IB_ECE_ENABLE", "1", Honoured, kSeeAbove},
    NcclSetting{"NCCL_IB_EVENT_BASED_LB", "not known", Meaningless, kSpreads, "2.31"},
    NcclSetting{"NCCL_IB_EVENT_BASED_LB_REMOTE", "not known", Meaningless, kSpreads, "2.31"},
    NcclSetting{"NCCL_IB_FIFO_TC", "`NCCL_IB_TC`", NotBuilt,
                "CTS entries travel on queue pairs that carry data, too"},
    NcclSetting{"NCCL_IB_GID_INDEX", "-1", Honoured, kSeeAbove},
    NcclSetting{"NCCL_IB_HCA", "unset", Honoured, kSeeAbove},
    NcclSetting{"NCCL_IB_MERGE_NICS", "1", Meaningless,
                "a link uses every pair of ports that meets, so NCCL has nothing to merge"},
    NcclSetting{"NCCL_IB_MERGE_VFS", "1", Meaningless, "as `NCCL_IB_MERGE_NICS`"},
    NcclSetting{"NCCL_IB_MQP_RETRY_ALL", "0", Meaningless,
                "a queue pair whose address the kernel does not find is tried three times, and its "
                "path again later"},
    NcclSetting{"NCCL_IB_MQP_RETRY_CNT", "34", Meaningless, "as `NCCL_IB_MQP_RETRY_ALL`"},
    NcclSetting{"NCCL_IB_MQP_RETRY_SLEEP_MSEC", "100", Meaningless, "as `NCCL_IB_MQP_RETRY_ALL`"},
    NcclSetting{"NCCL_IB_OOO_RQ", "0", NotBuilt,
                "the fence of a lost path counts writes with immediate in the order in which they "
                "were sent"},
    NcclSetting{"NCCL_IB_PCI_RELAXED_ORDERING", "2", Honoured, kSeeAbove},
    NcclSetting{"NCCL_IB_PKEY", "0", Honoured, kSeeAbove},
    NcclSetting{"NCCL_IB_PKEY_VALUE", "unset", Honoured, kSeeAbove, "2.31"},
    NcclSetting{"NCCL_IB_PREPOST_RECEIVE_WORK_REQUESTS", "0", Meaningless,
                "receives are always posted beforehand"},
    NcclSetting{"NCCL_IB_QPS_PER_CONNECTION", "1", Honoured, "see `NCCL_MESH_QPS` above"},
    NcclSetting{"NCCL_IB_QUERY_PORT_SPEED", "1", Meaningless,
                "the speed of a port is always queried, if rdma-core can"},
    NcclSetting{"NCCL_IB_RAIL_POLICY", "not known", Meaningless,
                "`NCCL_MESH_RAILS` says which rails carry a connection", "2.32"},
    NcclSetting{"NCCL_IB_RECEIVER_SIDE_MATCHING_SCHEME", "0", Meaningless,
                "each write with immediate names the slot of its receive"},
    NcclSetting{"NCCL_IB_RESILIENCY_PORT_FAILOVER", "0", Meaningless, kAlwaysOn},
    NcclSetting{"NCCL_IB_RESILIENCY_PORT_FAILOVER_MAX_ATTEMPTS", "1", Meaningless, kAlwaysOn},
    NcclSetting{"NCCL_IB_RESILIENCY_PORT_FAILOVER_PROBE_DELAY", "10", Meaningless, kAlwaysOn},
    NcclSetting{"NCCL_IB_RESILIENCY_PORT_RECOVERY", "0", Meaningless, kAlwaysOn},
    NcclSetting{"NCCL_IB_RESILIENCY_PORT_RECOVERY_ACK_TIMEOUT", "5000", Meaningless, kAlwaysOn},
    NcclSetting{"NCCL_IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_BATCH_INTERVAL", "500", Meaningless,
                kAlwaysOn},
    NcclSetting{"NCCL_IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_BATCH_SIZE", "5", Meaningless,
                kAlwaysOn},
    NcclSetting{"NCCL_IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_SEQUENCE_SIZE", "5", Meaningless,
                kAlwaysOn},
    NcclSetting{"NCCL_IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_TIMEOUT", "4000", Meaningless,
                kAlwaysOn},
    NcclSetting{"NCCL_IB_RESILIENCY_PORT_RECOVERY_ATTEMPTS_MAX", "5, from 2.31 on 20", Meaningless,
                kAlwaysOn},
    NcclSetting{"NCCL_IB_RESILIENCY_PORT_RECOVERY_START_DELAY", "200", Meaningless, kAlwaysOn},
    NcclSetting{"NCCL_IB_RETRY_CNT", "7", Honoured, "see the table above; its default differs"},
    NcclSetting{"NCCL_IB_RETURN_ASYNC_EVENTS", "1", Meaningless,
                "a device event ends paths, and never the job while another path is up"},
    NcclSetting{"NCCL_IB_ROCE_VERSION_NUM", "2", Honoured, kSeeAbove},
    NcclSetting{"NCCL_IB_ROUTABLE_FLID_GID_INDEX", "1", Meaningless,
                "an InfiniBand port uses its first GID that can be routed, or GID 0"},
    NcclSetting{"NCCL_IB_SL", "0", Honoured, kSeeAbove},
    NcclSetting{"NCCL_IB_SPLIT_DATA_ON_QPS", "0", Meaningless,
                "a message is split by its size, see `NCCL_MESH_STRIPE_BYTES`"},
    NcclSetting{"NCCL_IB_SUBNET_AWARE_ROUTING", "0", Meaningless,
                "ports are always paired by subnet, or else by route"},
    NcclSetting{"NCCL_IB_SUBNET_PREFIX_LEN", "24", Meaningless,
                "the net device tells it; where that is not visible, `NCCL_MESH_PREFIX_LEN`"},
    NcclSetting{"NCCL_IB_TC", "0", Honoured, kSeeAbove},
    NcclSetting{"NCCL_IB_TIMEOUT", "20", Honoured, "see the table above; its default differs"},
    NcclSetting{"NCCL_IB_USE_INLINE", "0", Meaningless, "`NCCL_MESH_INLINE` says what goes inline"},
    NcclSetting{"NCCL_IB_WARN_RAIL_LOCAL", "0", Meaningless,
                "it is a warning about NCCL's own pairing of devices"},
    NcclSetting{"NCCL_IB_WQE_LATENCY_REPORT", "1", NotBuilt, kLatency, "2.31"},
    NcclSetting{"NCCL_IB_WQE_LATENCY_THRESHOLD_NS", "0", NotBuilt, kLatency, "2.31"},
};

// The other names that NCCL reads, in alphabetical order.
constexpr std::array<std::string_view, 29> kOtherNames{"NCCL_NET",
                                                       "NCCL_NET_DISABLE_INTRA",
                                                       "NCCL_NET_FORCE_FLUSH",
                                                       "NCCL_NET_FORCE_MERGE",
                                                       "NCCL_NET_GDR_C2C",
                                                       "NCCL_NET_GDR_LEVEL",
                                                       "NCCL_NET_GDR_MLOPART",
                                                       "NCCL_NET_GDR_READ",
                                                       "NCCL_NET_MERGE_LEVEL",
                                                       "NCCL_NET_MERGE_POLICY",
                                                       "NCCL_NET_OPTIONAL_RECV_COMPLETION",
                                                       "NCCL_NET_OVERHEAD",
                                                       "NCCL_NET_PLUGIN",
                                                       "NCCL_NET_PLUGIN_REF_COUNT",
                                                       "NCCL_NET_SHARED_BUFFERS",
                                                       "NCCL_NET_SHARED_COMMS",
                                                       "NCCL_SOCKET_FAMILY",
                                                       "NCCL_SOCKET_IFNAME",
                                                       "NCCL_SOCKET_INLINE",
                                                       "NCCL_SOCKET_MAGIC",
                                                       "NCCL_SOCKET_MIN_TASKSIZE",
                                                       "NCCL_SOCKET_NTHREADS",
                                                       "NCCL_SOCKET_POLL_TIMEOUT_MSEC",
                                                       "NCCL_SOCKET_RCVBUF",
                                                       "NCCL_SOCKET_RETRY_CNT",
                                                       "NCCL_SOCKET_RETRY_SLEEP_MSEC",
                                                       "NCCL_SOCKET_SNDBUF",
                                                       "NCCL_IB_CUDA_SUPPORT",
                                                       "NCCL_IB_GDR_LEVEL"};

}  // namespace

std::span<const NcclSetting> nccl_table() noexcept { return kNcclTable; }

std::vector<std::string_view> nccl_network_names() {
  std::vector<std::string_view> names(kOtherNames.begin(), kOtherNames.end());
  for (const NcclSetting& setting : kNcclTable) names.emplace_back(setting.name);
  return names;
}

}  // namespace mesh
