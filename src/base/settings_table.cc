#include "src/base/settings_table.h"

#include "src/base/setting_grammar.h"

#include <algorithm>
#include <array>
#include <climits>
#include <cstddef>

namespace mesh {

namespace {

constexpr std::size_t kTextMax = 1024;

bool any_text(std::string_view) { return true; }
bool file_text(std::string_view text) { return text.size() <= kTextMax; }
bool host_text(std::string_view text) {
  return text.size() <= 255 && text.find_first_of(" \t\n/") == std::string_view::npos;
}
// Returns true for text that frames carry as it is: they replace other characters.
bool site_text(std::string_view text) {
  const auto shown = [](char c) { return c > ' ' && c <= '~'; };
  return text.size() <= 64 && std::all_of(text.begin(), text.end(), shown);
}
bool fabric_text(std::string_view text) {
  return text == "rdma" ||
         (text.starts_with("soft:") && text.size() > 5 && text.size() <= kTextMax);
}
bool copy_text(std::string_view text) { return text == "auto" || text == "cma" || text == "cells"; }
bool gdr_text(std::string_view text) { return text == "auto" || text == "off"; }
bool rails_text(std::string_view text) {
  return text == "auto" || text == "asked" || text == "all";
}
bool family_text(std::string_view text) { return text == "AF_INET" || text == "AF_INET6"; }
bool address_range_text(std::string_view text) { return read_address_range(text).has_value(); }
bool cpus_text(std::string_view text) { return read_cpu_list(text).has_value(); }
bool stats_text(std::string_view text) { return read_stats_target(text).has_value(); }
bool level_text(std::string_view text) {
  constexpr std::string_view kTime = "+time";
  if (text.ends_with(kTime)) text.remove_suffix(kTime.size());
  return text == "none" || text == "warn" || text == "info" || text == "detail" || text == "trace";
}

// The one table. Defaults are those of Settings.
constexpr std::array kTable{
    Setting{"NCCL_MESH_QPS", "queue pairs", IntField{&Settings::qps, 1, 32, Extra::Auto},
            "Bulk queue pairs per path; one more carries small messages. auto: 4, or 2 on each "
            "PCIe half of a cable; 1 suits a clean "
            "direct cable, more help on LAG and ECMP.",
            "NCCL_IB_QPS_PER_CONNECTION"},
    Setting{"NCCL_MESH_LATE_QPS", "", IntField{&Settings::late_qps, 0, 1},
            "1: a connection starts with the queue pair for small messages, and gets the bulk ones "
            "beside its first larger messages; 0: it has all from the start. The receiving side "
            "decides."},
    Setting{"NCCL_MESH_SIGNAL_INTERVAL", "work requests",
            IntField{&Settings::signal_interval, 1, 64},
            "Every n-th work request of a doorbell asks for a completion."},
    Setting{"NCCL_MESH_THREADS", "threads per NIC", IntField{&Settings::threads, 0, 8, Extra::Auto},
            "Pinned threads that poll; 0: NCCL's own threads poll; auto: 1 with 8 or more usable "
            "cores or with NCCL_MESH_CPUS, else 0."},
    Setting{"NCCL_MESH_INLINE", "bytes", IntField{&Settings::inline_bytes, 0, 512, Extra::Auto},
            "Largest message written inline; auto: what the device grants, up to 220."},
    Setting{"NCCL_MESH_SLOTS", "requests", IntField{&Settings::slots, 32, 256, Extra::PowerOfTwo},
            "Requests in flight per channel."},
    Setting{"NCCL_MESH_RQ_DEPTH", "receives",
            IntField{&Settings::rq_depth, 16, 4096, Extra::PowerOfTwo},
            "Receives posted per queue pair; each takes one write with immediate."},
    Setting{"NCCL_MESH_SQ_DEPTH", "work requests",
            IntField{&Settings::sq_depth, 64, 4096, Extra::PowerOfTwo},
            "Work requests outstanding per queue pair."},
    Setting{"NCCL_MESH_EXPRESS_BYTES", "bytes", BytesField{&Settings::express_bytes, 0, kMiB},
            "Largest small message: it takes the express queue pair, or one without stripes."},
    Setting{"NCCL_MESH_STRIPE_BYTES", "bytes",
            BytesField{&Settings::stripe_bytes, 128, kGiB, Extra::Multiple128},
            "Smallest stripe of larger messages; one stripe alone is halved on an idle path."},
    Setting{"NCCL_MESH_WR_BYTES", "bytes",
            BytesField{&Settings::wr_bytes, 4 * kKiB, kGiB, Extra::Multiple128},
            "Largest work request; larger stripes are cut."},
    Setting{"NCCL_MESH_INFLIGHT_BYTES", "bytes",
            BytesField{&Settings::inflight_bytes, 64 * kKiB, 64 * kGiB, Extra::Auto},
            "Bytes in flight per path, at least NCCL_MESH_WR_BYTES; auto: what the port carries in "
            "4 ms, 8M at most."},
    Setting{"NCCL_MESH_CPUS", "",
            TextField{&Settings::cpus, cpus_text, "a list of CPUs such as 2,4-7, each below 8192"},
            "CPUs where poller threads may run; unset: any that this process may use."},
    Setting{"NCCL_MESH_FABRIC", "", TextField{&Settings::fabric, fabric_text, "rdma or soft:FILE"},
            "Provider: RDMA devices, or the software fabric that FILE describes."},
    Setting{"NCCL_MESH_HOST", "", TextField{&Settings::host, host_text, "a host name"},
            "This process's host in the fabric file; unset: NCCL_HOSTID if the file has that host, "
            "else the first host that no process has claimed."},
    Setting{"NCCL_HOSTID", "", TextField{&Settings::host_id, any_text, "a name"},
            "NCCL's name for this host."},
    Setting{"NCCL_MESH_SOFT_COPY", "",
            TextField{&Settings::soft_copy, copy_text, "auto, cma or cells"},
            "How the software fabric copies between processes: by the kernel (cma), or twice "
            "through shared cells; auto: whichever is faster here."},
    Setting{
        "NCCL_MESH_PREFIX_LEN", "bits", IntField{&Settings::prefix_len, 1, 128, Extra::Auto},
        "Subnet prefix of rails whose net device is not visible; auto: 24 for IPv4, 64 for IPv6."},
    Setting{"NCCL_IB_HCA", "", TextField{&Settings::hca, any_text, "a list"},
            "RDMA devices to use: comma list of NAME[:PORT[:RAIL[:PLANE]]], where NAME is a "
            "prefix; leading ^ excludes, = compares whole names. NCCL is told rail and plane, and "
            "ports of equal rail and plane on two hosts are connected."},
    Setting{"NCCL_MESH_RAILS", "", TextField{&Settings::rails, rails_text, "auto, asked or all"},
            "Rails that carry a connection. auto: the cable between the device that NCCL names and "
            "the one on which its peer listens, and other cables if that one does not exist or is "
            "lost; asked: only that cable; all: every rail that reaches the peer."},
    Setting{"NCCL_MESH_SITE", "",
            TextField{&Settings::site, site_text, "1 to 64 ASCII characters, no space"},
            "This host's data centre. Between two data centres only the rails of "
            "NCCL_MESH_SITE_RAILS are used, and bytes in flight and timers follow the measured "
            "round trip. Set it on every host or on none."},
    Setting{
        "NCCL_MESH_SITE_RAILS", "", TextField{&Settings::site_rails, file_text, "a list"},
        "Rails that leave the site: device names as in NCCL_IB_HCA, or rail numbers (those that "
        "NCCL_IB_HCA assigns, or places by PCI address from 0); unset: all."},
    Setting{"NCCL_MESH_RELAY", "", IntField{&Settings::relay, 0, 1},
            "1: this process relays messages between hosts that no rail joins, and lets other "
            "hosts relay its own; 0: neither."},
    Setting{"NCCL_MESH_RELAY_BYTES", "bytes", BytesField{&Settings::relay_bytes, kMiB, 64 * kGiB},
            "Most memory for all that this process relays for other hosts."},
    Setting{"NCCL_MESH_JOB", "",
            TextField{&Settings::job, file_text, "a text of up to 1024 characters", true},
            "A secret that all processes of the job share, and nobody else knows: hosts that no "
            "rail joins find those between by it, over their cables. Unset: the id of a "
            "communicator that both are in, which NCCL 2.28 and later tell."},
    Setting{
        "NCCL_MESH_BOTH_WAYS", "", IntField{&Settings::both_ways, 0, 1},
        "1: part of each large message to a neighbour goes the other way round the ring, over "
        "the other hosts; for jobs whose rings run one way. Set it on every host. It has an effect "
        "where the PCIe slots of all hosts on the way carry all their ports at full speed."},
    Setting{"NCCL_MESH_ONESHOT_BYTES", "bytes", BytesField{&Settings::oneshot_bytes, 0, kGiB},
            "Largest all-reduce that goes in one exchange between all hosts instead of round a "
            "ring (CollNet); 0: none. An experiment, for three hosts and more without GPUDirect: "
            "set it alike on every host, with NCCL_COLLNET_ENABLE=1."},
    Setting{"NCCL_MESH_GDR", "", TextField{&Settings::gdr, gdr_text, "auto or off"},
            "NICs read and write GPU memory themselves, by DMA buffers or peer memory. auto: if "
            "every rail of this host can; off: never."},
    Setting{
        "NCCL_NET", "", TextField{&Settings::net, any_text, "a network's name"},
        "The network that NCCL must use. With Mesh, a host without a usable rail is a warning."},
    Setting{"NCCL_IB_GID_INDEX", "", IntField{&Settings::gid_index, 0, 255, Extra::Auto, INT_MIN},
            "GID table index on RoCE ports; unset: the entries that NCCL_IB_ADDR_FAMILY, "
            "NCCL_IB_ADDR_RANGE and NCCL_IB_ROCE_VERSION_NUM choose. InfiniBand ports ignore it."},
    Setting{"NCCL_IB_ADDR_FAMILY", "",
            TextField{&Settings::addr_family, family_text, "AF_INET or AF_INET6"},
            "Address family of our GIDs on RoCE ports; unset: both, IPv4 first."},
    Setting{"NCCL_IB_ADDR_RANGE", "",
            TextField{&Settings::addr_range, address_range_text, "ADDRESS/BITS"},
            "Addresses that our GIDs may have on RoCE ports; unset: any."},
    Setting{"NCCL_IB_ROCE_VERSION_NUM", "", IntField{&Settings::roce_version, 1, 2},
            "RoCE version of our GIDs."},
    Setting{"NCCL_IB_PKEY", "", IntField{&Settings::pkey_index, 0, 65535},
            "Index of our partition key in the table of an InfiniBand port."},
    Setting{"NCCL_IB_PKEY_VALUE", "",
            IntField{&Settings::pkey_value, 1, 65535, Extra::Auto, INT_MIN},
            "Our partition key, such as 0x8001, at whatever index a port has it; it goes before "
            "NCCL_IB_PKEY. The top bit (full member) does not count."},
    Setting{"NCCL_SOCKET_IFNAME", "", TextField{&Settings::socket_ifname, any_text, "a list"},
            "Interfaces for the handshake: comma list of name prefixes; leading ^ excludes, = "
            "compares exactly."},
    Setting{"NCCL_SOCKET_FAMILY", "",
            TextField{&Settings::socket_family, family_text, "AF_INET or AF_INET6"},
            "Address family of the handshake; unset: both."},
    Setting{"NCCL_IB_TC", "", IntField{&Settings::traffic_class, 0, 255, Extra::Auto},
            "Traffic class of our packets (DSCP and ECN bits); unset: the communicator's, or 0."},
    Setting{"NCCL_IB_SL", "", IntField{&Settings::service_level, 0, 15, Extra::Auto},
            "Service level of our queue pairs; unset: the communicator's traffic class, or 0."},
    Setting{"NCCL_IB_TIMEOUT", "", IntField{&Settings::timeout, 0, 31},
            "Acknowledge timer, 4.096 us * 2^n a try; 16 is 0.27 s (NCCL's own transport uses 20, "
            "4.3 s). 0: for ever; a silent path is then lost by the plugin's own bound."},
    Setting{"NCCL_IB_RETRY_CNT", "tries", IntField{&Settings::retry_count, 0, 7},
            "Retries before a path counts as lost; on some devices 7 means for ever."},
    Setting{"NCCL_IB_ADAPTIVE_ROUTING", "",
            IntField{&Settings::adaptive_routing, 0, 1, Extra::Auto, -2},
            "1: packets of one queue pair may take several ways through the network; unset: 1 on "
            "InfiniBand ports, 0 on others."},
    Setting{"NCCL_IB_AR_THRESHOLD", "bytes",
            IntField{&Settings::ar_threshold, 0, INT_MAX, Extra::None, -2},
            "With adaptive routing, a message larger than this goes as plain writes, which may "
            "arrive in any order, followed by an empty write with immediate."},
    Setting{"NCCL_IB_PCI_RELAXED_ORDERING", "", IntField{&Settings::relaxed_ordering, 0, 2},
            "0: the device writes data to memory in order; 1 and 2: in any order, if it can."},
    Setting{"NCCL_IB_ECE_ENABLE", "", IntField{&Settings::ece, 0, 1},
            "1: both devices agree on vendor options (enhanced connection establishment), if they "
            "can."},
    Setting{"NCCL_MESH_PATH_TIMEOUT", "seconds", IntField{&Settings::path_timeout_s, 1, 3600},
            "How long requests wait while no path to their peer is up; then they fail."},
    Setting{
        "NCCL_MESH_STATS", "",
        TextField{&Settings::stats, stats_text,
                  "FILE[:SECONDS], seconds 1..3600, %h and %p for host and process in FILE"},
        "File for metrics in Prometheus' text format, with a snapshot (.json) beside it, written "
        "every 10 seconds (or SECONDS) and at the end; unset: none."},
    Setting{"NCCL_MESH_LATENCY", "", IntField{&Settings::latency, 0, 1},
            "1: with NCCL_MESH_STATS, the latency of each path is measured, up to ten times a "
            "second while "
            "it carries messages of ours; 0: never."},
    Setting{"NCCL_PROFILER_PLUGIN", "",
            TextField{&Settings::profiler, any_text, "none or a library"},
            "NCCL's profiler; if one is named, it gets an event for each queue pair that carries a "
            "send, and for each receive."},
    Setting{"NCCL_MESH_STALL_SECONDS", "seconds", IntField{&Settings::stall_seconds, 0, 86400},
            "A request that stays open this long gets a log line that says what it waits for; 0: "
            "no request does."},
    Setting{"NCCL_MESH_LOG", "",
            TextField{&Settings::log_level, level_text,
                      "none, warn, info, detail or trace, also with +time"},
            "What goes to standard error when NCCL gives no logger. +time (info+time): each line, "
            "also of the tools, begins with the time (UTC). For NCCL's own log: "
            "NCCL_DEBUG_TIMESTAMP_LEVELS."},
};

}  // namespace

std::span<const Setting> settings_table() noexcept { return kTable; }

}  // namespace mesh
