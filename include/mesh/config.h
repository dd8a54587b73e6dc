#pragma once
// Every setting of the process, read once and constant afterwards. The table in
// src/base/settings_table.cc parses, validates, prints and documents them; src/base/config.cc is
// the only reader of the environment. The fields are in the table's order, each under the name of
// its variable. Thread: any (immutable after load). Bound: the table.

#include <cstdint>
#include <string>
#include <vector>

namespace mesh {

inline constexpr int kAuto = -1;  // "let the plugin choose"

struct Settings {
  // The data path.

  // NCCL_MESH_QPS: bulk queue pairs of a path, 1..32. Auto: by the kind of rails.
  int qps = kAuto;
  // NCCL_MESH_LATE_QPS: 1: the bulk queue pairs of a link are made with its first larger message.
  int late_qps = 1;
  // NCCL_MESH_SIGNAL_INTERVAL: every n-th work request is signaled, 1..64.
  int signal_interval = 16;
  // NCCL_MESH_THREADS: poller threads of a NIC, 0..8. Auto: 1 if there are cores to spare.
  int threads = kAuto;
  // NCCL_MESH_INLINE: largest inline message, 0..512. Auto: what the device grants, up to 220.
  int inline_bytes = kAuto;
  // NCCL_MESH_SLOTS: requests in flight on a channel, 32..256, a power of two.
  int slots = 32;
  // NCCL_MESH_RQ_DEPTH: announcements outstanding on a queue pair, 16..4096, a power of two.
  int rq_depth = 256;
  // NCCL_MESH_SQ_DEPTH: work requests outstanding on a queue pair, 64..4096, a power of two.
  int sq_depth = 256;
  // NCCL_MESH_EXPRESS_BYTES: largest small message. It takes the express queue pair, or a bulk one
  // while that has no stripes.
  std::int64_t express_bytes = 8192;
  // NCCL_MESH_STRIPE_BYTES: smallest stripe, unless the path has little in flight.
  std::int64_t stripe_bytes = 65536;
  // NCCL_MESH_WR_BYTES: largest work request.
  std::int64_t wr_bytes = 524288;
  // NCCL_MESH_INFLIGHT_BYTES: bytes in flight on a path. Auto: by the port's speed.
  std::int64_t inflight_bytes = kAuto;

  // NCCL_MESH_PROFILE: a file with measured settings, or "none". Empty: the usual places.
  std::string profile;
  // NCCL_MESH_CPUS: CPUs where pollers may run, such as "2,4-7". Empty: all that are allowed.
  std::string cpus;

  // Devices, addresses and interfaces.

  // NCCL_MESH_FABRIC: rdma | soft:FILE.
  std::string fabric = "rdma";
  // NCCL_MESH_HOST: our name in the fabric file. Empty: NCCL_HOSTID, or else the first free name.
  std::string host;
  // NCCL_HOSTID.
  std::string host_id;
  // NCCL_PROFILER_PLUGIN: "none" in any case, or a library. Empty: none is named.
  std::string profiler;
  // NCCL_MESH_SOFT_COPY: auto | cma | cells.
  std::string soft_copy = "auto";
  // NCCL_MESH_PREFIX_LEN: length of the prefix if the net device is not visible, 1..128.
  int prefix_len = kAuto;
  // NCCL_IB_HCA: a list of device[:port[:rail[:plane]]]; ^ excludes, = compares whole names.
  std::string hca;
  // NCCL_MESH_RAILS: auto | asked | all, which of the rails that meet the peer's a link uses.
  std::string rails = "auto";
  // NCCL_MESH_SITE: the name of this host's data centre. Empty: there is only one data centre.
  std::string site;
  // NCCL_MESH_SITE_RAILS: rails that lead out of it, as in NCCL_IB_HCA or by number. Empty: all.
  std::string site_rails;
  // NCCL_MESH_RELAY: 0 or 1, whether this process carries messages of other hosts and lets other
  // hosts carry its own.
  int relay = 1;
  // NCCL_MESH_RELAY_BYTES: memory for messages of other hosts, 1 MiB to 64 GiB.
  std::int64_t relay_bytes = 536870912;
  // NCCL_MESH_JOB: a secret text that all processes of the job share. Empty: the id of the
  // communicator, where NCCL gives it.
  std::string job;
  // NCCL_MESH_BOTH_WAYS: 0 or 1, whether large messages to a neighbour also go round the ring of
  // hosts in the other direction.
  int both_ways = 0;
  // NCCL_MESH_ONESHOT_BYTES: all-reduces up to this size go in one exchange (CollNet), 0..1G. 0:
  // off, and NCCL finds neither a CollNet nor a tuner in the library.
  std::int64_t oneshot_bytes = 0;
  // NCCL_MESH_GDR: auto | off, whether NICs reach the memory of GPUs.
  std::string gdr = "auto";
  // NCCL_NET: the network that NCCL must use. Empty: any.
  std::string net;
  // NCCL_IB_GID_INDEX, for RoCE ports only. Auto: by type and address.
  int gid_index = kAuto;
  // NCCL_IB_ADDR_FAMILY: of the GIDs of RoCE ports, AF_INET | AF_INET6 | empty for both.
  std::string addr_family;
  // NCCL_IB_ADDR_RANGE: a prefix of the GIDs of RoCE ports, such as 10.0.0.0/8. Empty: any.
  std::string addr_range;
  // NCCL_IB_ROCE_VERSION_NUM: RoCE version of the GIDs, 1..2.
  int roce_version = 2;
  // NCCL_IB_PKEY: an index in an InfiniBand port's table of partition keys, 0..65535.
  int pkey_index = 0;
  // NCCL_IB_PKEY_VALUE: the partition key itself, at whatever index a port has it; it goes before
  // the index. Auto: the index counts.
  int pkey_value = kAuto;
  // NCCL_SOCKET_IFNAME: interfaces for the handshake.
  std::string socket_ifname;
  // NCCL_SOCKET_FAMILY: AF_INET | AF_INET6 | empty.
  std::string socket_family;

  // Attributes of queue pairs.

  // NCCL_IB_TC: 0..255. Auto: the communicator's, or 0.
  int traffic_class = kAuto;
  // NCCL_IB_SL: 0..15. Auto: the communicator's traffic class, or 0.
  int service_level = kAuto;
  // NCCL_IB_TIMEOUT: one try takes 4.096 us * 2^n, 1..31. 16 is 0.27 s. 0: for ever.
  int timeout = 16;
  // NCCL_IB_RETRY_CNT: number of tries, 0..7. On some devices 7 means for ever.
  int retry_count = 6;
  // NCCL_IB_ADAPTIVE_ROUTING: 0 | 1. Auto: 1 on InfiniBand ports, 0 on others.
  int adaptive_routing = kAuto;
  // NCCL_IB_AR_THRESHOLD: with adaptive routing, bytes above which the immediate is sent by itself.
  int ar_threshold = 8192;
  // NCCL_IB_PCI_RELAXED_ORDERING: 0: never; 1 and 2: where the device can.
  int relaxed_ordering = 2;
  // NCCL_IB_ECE_ENABLE: 0 | 1.
  int ece = 1;

  // Failures.

  // NCCL_MESH_PATH_TIMEOUT: how long to wait for a peer when no path to it answers, 1..3600.
  int path_timeout_s = 30;

  // Diagnostics.

  // NCCL_MESH_STATS: FILE[:SECONDS], where metrics go. Empty: nowhere.
  std::string stats;
  // NCCL_MESH_LATENCY: 1: with NCCL_MESH_STATS, the latency of paths is measured while they carry
  // messages.
  int latency = 1;
  // NCCL_MESH_STALL_SECONDS: a request that is open this long is logged, 0..86400. 0: never.
  int stall_seconds = 30;
  // NCCL_MESH_LOG: none | warn | info | detail | trace, used if NCCL gives no logger.
  std::string log_level = "info";

  // The following are not settings; they tell where the settings came from.

  // The settings that the environment sets, each by the first of its names.
  std::vector<std::string> given;
  // The usual places of a profile, in the order in which they are tried.
  std::vector<std::string> profile_places;
};

}  // namespace mesh
