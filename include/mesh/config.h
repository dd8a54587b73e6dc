#pragma once
// Every setting of the process, read once and constant afterwards. The table in
// src/base/settings_table.cc says of each field which variable sets it, what it means and what
// range it has; src/base/config.cc is the only reader of the environment. Thread: any (immutable
// after load). Bound: the table.

#include <cstdint>
#include <string>
#include <vector>

namespace mesh {

inline constexpr int kAuto = -1;  // the plugin chooses, or NCCL's variable is unset

struct Settings {
  // The data path.

  int qps = kAuto;
  int late_qps = 1;
  int signal_interval = 16;
  int threads = kAuto;
  int inline_bytes = kAuto;
  int slots = 32;
  int rq_depth = 256;
  int sq_depth = 256;
  std::int64_t express_bytes = 8192;
  std::int64_t stripe_bytes = 65536;
  std::int64_t wr_bytes = 524288;
  std::int64_t inflight_bytes = kAuto;

  std::string cpus;

  // Devices, addresses and interfaces.

  std::string fabric = "rdma";
  std::string host;
  std::string host_id;
  std::string profiler;
  std::string soft_copy = "auto";
  int prefix_len = kAuto;
  std::string hca;
  std::string rails = "auto";
  std::string site;
  std::string site_rails;
  int relay = 1;
  std::int64_t relay_bytes = 536870912;
  std::string job;
  int both_ways = 0;
  std::int64_t oneshot_bytes = 0;
  std::string gdr = "auto";
  std::string net;
  int gid_index = kAuto;
  std::string addr_family;
  std::string addr_range;
  int roce_version = 2;
  int pkey_index = 0;
  int pkey_value = kAuto;
  std::string socket_ifname;
  std::string socket_family;

  // Attributes of queue pairs.

  int traffic_class = kAuto;
  int service_level = kAuto;
  int timeout = 16;
  int retry_count = 6;
  int adaptive_routing = kAuto;
  int ar_threshold = 8192;
  int relaxed_ordering = 2;
  int ece = 1;

  // Failures.

  int path_timeout_s = 30;

  // Diagnostics.

  std::string stats;
  int latency = 1;
  int stall_seconds = 30;
  std::string log_level = "info";

  // The following are not settings; they tell where the settings came from.

  // The settings that the environment sets, each by the first of its names.
  std::vector<std::string> given;
};

}  // namespace mesh
