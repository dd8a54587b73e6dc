#pragma once
// Every setting of the process, read once and constant afterwards. The table that parses,
// validates, prints and documents them is src/base/settings_table.cc; src/base/config.cc is the
// only reader of the environment. Field order is the table's order. Thread: any (immutable after
// load).

#include <cstdint>
#include <string>
#include <vector>

namespace mesh {

inline constexpr int kAuto = -1;  // "let the plugin choose"

struct Settings {
  // Data path.
  int qps = kAuto;  // NCCL_MESH_QPS: bulk queue pairs per path, 1..32; auto: by what the rails are
  int signal_interval = 16;  // NCCL_MESH_SIGNAL_INTERVAL: every n-th work request signaled, 1..64
  int threads =
      kAuto;  // NCCL_MESH_THREADS: poller threads per NIC, 0..8; auto: 1 where cores are to spare
  int inline_bytes = kAuto;  // NCCL_MESH_INLINE: largest inline message, 0..512; auto: what the
                             // device grants up to 220
  int slots = 32;      // NCCL_MESH_SLOTS: requests in flight per channel, 32..256, a power of two
  int rq_depth = 256;  // NCCL_MESH_RQ_DEPTH: announcements outstanding per queue pair, 16..4096, a
                       // power of two
  int sq_depth = 256;  // NCCL_MESH_SQ_DEPTH: work requests outstanding per queue pair, 64..4096, a
                       // power of two
  std::int64_t express_bytes =
      8192;  // NCCL_MESH_EXPRESS_BYTES: largest message on the express queue pair
  std::int64_t stripe_bytes = 65536;  // NCCL_MESH_STRIPE_BYTES: smallest stripe; up to this a
                                      // message stays on one queue pair
  std::int64_t wr_bytes = 524288;     // NCCL_MESH_WR_BYTES: largest work request
  std::int64_t inflight_bytes =
      kAuto;  // NCCL_MESH_INFLIGHT_BYTES: bytes in flight per path; auto: by the port's speed

  std::string
      profile;  // NCCL_MESH_PROFILE: file with measured settings; none; empty: the usual places
  std::string cpus;  // NCCL_MESH_CPUS: "2,4-7", where pollers may run; empty: anywhere allowed

  // Finding the way.
  std::string fabric = "rdma";  // NCCL_MESH_FABRIC: rdma | soft:FILE
  std::string host;     // NCCL_MESH_HOST: our name in the fabric file; empty: NCCL_HOSTID, else the
                        // first free one
  std::string host_id;  // NCCL_HOSTID
  std::string soft_copy = "auto";  // NCCL_MESH_SOFT_COPY: auto | cma | cells
  int prefix_len =
      kAuto;        // NCCL_MESH_PREFIX_LEN: prefix where the net device is not visible, 1..128
  std::string hca;  // NCCL_IB_HCA: list of device[:port], ^ excludes, = exact
  int gid_index = kAuto;      // NCCL_IB_GID_INDEX: -1: by type and address
  std::string socket_ifname;  // NCCL_SOCKET_IFNAME: interfaces for the handshake
  std::string socket_family;  // NCCL_SOCKET_FAMILY: AF_INET | AF_INET6 | empty

  // Queue pair attributes.
  int traffic_class = 0;  // NCCL_IB_TC: 0..255
  int service_level = 0;  // NCCL_IB_SL: 0..15
  int timeout = 16;       // NCCL_IB_TIMEOUT: 4.096 us * 2^n per try, 1..31; 16 is 0.27 s
  int retry_count = 6;    // NCCL_IB_RETRY_CNT: tries, 0..7; on some devices 7 means for ever

  // When something fails.
  int path_timeout_s = 30;  // NCCL_MESH_PATH_TIMEOUT: 1..3600, how long a peer none of whose paths
                            // answers is waited for

  // Diagnostics.
  std::string stats;       // NCCL_MESH_STATS: FILE[:SECONDS], where metrics go; empty: nowhere
  int stall_seconds = 30;  // NCCL_MESH_STALL_SECONDS: 0..86400, a request open for so long is worth
                           // a line; 0: never
  std::string log_level =
      "info";  // NCCL_MESH_LOG: none | warn | info | trace, when NCCL gives no logger

  // Not settings, but where they came from.
  std::vector<std::string> given;  // names of those that the environment sets, by their first name
  std::vector<std::string>
      profile_places;  // the usual places of a profile, in the order in which they are looked at
};

}  // namespace mesh
