#include "engine/link/link_setup.h"

#include "src/base/log.h"
#include "src/topo/subnet.h"
#include "src/verbs/gid_choice.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace mesh::engine {

namespace {
// A receiver-not-ready is a bug of ours, counted; it must not kill a job.
constexpr std::uint8_t kRnrRetryForever = 7;
// This is 0.01 ms; with 12 (0.64 ms) flows collapsed tenfold when it happened.
constexpr std::uint8_t kRnrTimer = 1;
constexpr std::uint8_t kHopLimit = 255;  // as many routers as there may be
// The kernel asks for a neighbour's hardware address once and waits a second: one lost frame would
// be the end of the link. For all queue pairs of a path together: they ask for the same address.
constexpr int kResolveTries = 3;

// Partitions are InfiniBand's. A RoCE port has the default one only.
std::uint16_t pkey_index_of(const verbs::Rail& rail, const Settings& settings) {
  return rail.ethernet ? std::uint16_t{0} : static_cast<std::uint16_t>(settings.pkey_index);
}

// A host that would not send to the peer by this port need not ask the wire for a second: neither
// by its own subnet nor by a route.
Status look_for_route(const Path& path, const PeerEnd& peer) {
  const verbs::Rail& rail = path.lane->rail();
  const WireAddress& to = peer.rail->addresses[path.ends.peer_address];
  const verbs::GidEntry& from = rail.gids[path.ends.own_address];
  if (!rail.ethernet || topo::same_subnet({verbs::address_of(from.gid), from.prefix_len},
                                          {verbs::address_of(gid_of(to)), to.prefix_len}))
    return {};
  const verbs::Route route = path.lane->provider().route(from, gid_of(to));
  if (route.kind == verbs::RouteKind::ByPort || route.kind == verbs::RouteKind::Unknown) return {};
  const std::string text =
      route.kind == verbs::RouteKind::None
          ? fmt::format("{}: this host has no route to that address", path.name)
          : fmt::format("{}: this host's route to that address leaves by {}", path.name,
                        route.netdev);
  if (peer.again) {
    LOG_INFO("{}", text);
  } else {
    LOG_WARN("{}", text);
  }
  return Errc::Transport;
}

Status to_init(const Path& path, ibv_qp* qp, const Settings& settings) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.pkey_index = pkey_index_of(path.lane->rail(), settings);
  attr.port_num = path.lane->rail().info.port;
  attr.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;  // no peer of ours reads
  const int error = path.lane->provider().modify_qp(
      qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
  if (error == 0) return {};
  LOG_WARN("{}: queue pair to INIT: {}", path.name, std::strerror(error));
  return Errc::Transport;
}

// The peer's device offers these options, or has accepted them of ours. Where ours refuses them the
// queue pair goes without: they are a gain, not a need.
bool take_ece(const Path& path, ibv_qp* qp, const WireEce& peer) {
  if (!path.wants_ece || peer.vendor == 0) return false;
  ibv_ece ece{.vendor_id = peer.vendor, .options = peer.options, .comp_mask = peer.mask};
  const int error = path.lane->provider().set_ece(qp, &ece);
  if (error != 0)
    LOG_INFO("{}: no options of the devices' maker: {}", path.name, std::strerror(error));
  return error == 0;
}

// All queue pairs of a path are made alike, so one tells. New ones: what the device offers.
// Connected ones: what was accepted, or nothing.
WireEce ece_of(const Path& path) {
  QueuePair& express = *path.queue_pairs[0];
  ibv_ece ece{};
  if (!path.wants_ece || (express.started() && !path.has_ece) ||
      path.lane->provider().query_ece(express.verbs(), &ece) != 0)
    return {};
  return {.vendor = ece.vendor_id, .options = ece.options, .mask = ece.comp_mask};
}

// A port under another subnet prefix is behind a router of its fabric, and gives its own LID to
// nobody here. Its GID may name the LID that its subnet has in all others.
std::uint16_t lid_towards(const ibv_gid& peer, std::uint16_t lid) {
  const std::uint16_t routable = verbs::routable_lid(peer);
  return routable != 0 ? routable : lid;
}

ibv_ah_attr address_of(const Path& path, const PeerEnd& peer, const Settings& settings) {
  ibv_ah_attr address{};
  const verbs::Rail& rail = path.lane->rail();
  const ibv_gid gid = gid_of(peer.rail->addresses[path.ends.peer_address]);
  const bool routed =
      !rail.ethernet && !verbs::same_ib_subnet(rail.gids[path.ends.own_address].gid, gid);
  address.sl = static_cast<std::uint8_t>(std::max(settings.service_level, 0));
  address.port_num = rail.info.port;  // ours: the peer's number is the peer's business
  if (!rail.ethernet) address.dlid = routed ? lid_towards(gid, peer.path->lid) : peer.path->lid;
  if (!rail.ethernet && !routed && !rail.global_header_required) return address;
  address.is_global = 1;
  address.grh.dgid = gid;
  address.grh.sgid_index = static_cast<std::uint8_t>(path.own_gid_index);
  address.grh.hop_limit = kHopLimit;
  if (rail.ethernet)
    address.grh.traffic_class = static_cast<std::uint8_t>(std::max(settings.traffic_class, 0));
  return address;
}

bool is_abandoned(const PeerEnd& peer) {
  return peer.abandoned != nullptr && peer.abandoned->load(std::memory_order_relaxed);
}

struct Tries {
  const PeerEnd& peer;
  int left = kResolveTries;
};

Status to_rtr(const Path& path, ibv_qp* qp, const ibv_qp_attr& attr, Tries& tries) {
  constexpr int kMask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                        IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  int error = ETIMEDOUT;
  while (error == ETIMEDOUT && tries.left > 0) {
    if (is_abandoned(tries.peer)) return Errc::PeerClosed;
    ibv_qp_attr copy = attr;
    error = path.lane->provider().modify_qp(qp, &copy, kMask);
    if (error == ETIMEDOUT) --tries.left;
  }
  if (error == 0) return {};
  if (is_abandoned(tries.peer)) return Errc::PeerClosed;
  const std::string text =
      fmt::format("{}: queue pair to RTR: {} (the peer's address is not reachable over this port)",
                  path.name, std::strerror(error));
  if (tries.peer.again) {
    LOG_INFO("{}", text);
  } else {
    LOG_WARN("{}", text);
  }
  return Errc::Transport;
}

Status to_rts(const Path& path, ibv_qp* qp, const PeerEnd& peer, const Settings& settings) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTS;
  attr.timeout = static_cast<std::uint8_t>(settings.timeout);
  attr.retry_cnt = static_cast<std::uint8_t>(settings.retry_count);
  attr.rnr_retry = kRnrRetryForever;
  attr.sq_psn = peer.own_psn;
  attr.max_rd_atomic = 1;
  const int error = path.lane->provider().modify_qp(qp, &attr,
                                                    IBV_QP_STATE | IBV_QP_TIMEOUT |
                                                        IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                                        IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
  if (error == 0) return {};
  LOG_WARN("{}: queue pair to RTS: {}", path.name, std::strerror(error));
  return Errc::Transport;
}
// A port that was down at the start says more when it is up.
verbs::PortNow own_port(const Path& path) {
  return verbs::port_now(path.lane->provider(), path.lane->rail());
}
}  // namespace

ibv_gid gid_of(const WireAddress& address) {
  ibv_gid gid{};
  std::memcpy(gid.raw, address.gid.data(), sizeof gid.raw);
  return gid;
}

WireRail describe_rail(const verbs::Rail& rail) {
  WireRail wire;
  for (const verbs::GidEntry& gid : rail.gids) {
    WireAddress& address = wire.addresses.emplace_back();
    std::memcpy(address.gid.data(), gid.gid.raw, address.gid.size());
    address.prefix_len = static_cast<std::uint8_t>(std::max(gid.prefix_len, 0));
  }
  wire.ethernet = rail.ethernet ? 1 : 0;
  wire.port = rail.info.port;
  wire.mtu = static_cast<std::uint8_t>(rail.active_mtu);
  wire.up = rail.up ? 1 : 0;
  wire.identity = rail.identity;
  wire.leaves_site = rail.leaves_site ? 1 : 0;
  wire.speed_mbps = rail.info.speed_mbps;
  wire.guid = rail.info.guid;
  wire.name = rail.info.name;
  return wire;
}

std::vector<WireRail> describe_rails(verbs::Provider& provider,
                                     std::span<const verbs::Rail> rails) {
  std::vector<WireRail> described;
  for (const verbs::Rail& rail : rails) {
    const verbs::PortNow now = verbs::port_now(provider, rail);
    WireRail& wire = described.emplace_back(describe_rail(rail));
    wire.up = now.up ? 1 : 0;
    wire.mtu = static_cast<std::uint8_t>(now.mtu);
    wire.speed_mbps = now.speed_mbps;
  }
  return described;
}

void take_port_speed(PeerLink& link, Path& path) {
  link.set_port_speed(path, own_port(path).speed_mbps);
}

void configure_path(PeerLink& link, Path& path, const Settings& settings) {
  take_port_speed(link, path);
  const bool adaptive = settings.adaptive_routing == kAuto ? !path.lane->rail().ethernet
                                                           : settings.adaptive_routing != 0;
  path.apart_above = adaptive ? static_cast<std::uint64_t>(settings.ar_threshold) : UINT64_MAX;
  path.wants_ece = settings.ece != 0;
}

WirePath describe_path(Path& path, std::uint32_t psn, const verbs::RemoteTarget& written) {
  WirePath wire;
  wire.psn = psn;
  const verbs::Rail& rail = path.lane->rail();
  const std::uint16_t known = path.own_lid != 0 ? path.own_lid : rail.lid;
  wire.lid = path.own_lid = verbs::current_lid(path.lane->provider(), rail).value_or(known);
  wire.mtu = static_cast<std::uint8_t>(own_port(path).mtu);
  wire.counters_address = written.address;
  wire.counters_rkey = written.rkey;
  for (const auto& queue_pair : path.queue_pairs) wire.qpn.push_back(queue_pair->verbs()->qp_num);
  wire.ece = ece_of(path);
  return wire;
}

void set_peer_windows(Path& path, const WirePath& peer) {
  for (std::uint32_t qp = 0; qp < path.queue_pairs.size(); ++qp) {
    path.queue_pairs[qp]->set_peer_window(
        {.address = peer.counters_address + qp * kWindowWords * sizeof(std::uint64_t),
         .rkey = peer.counters_rkey});
  }
}

void set_probe_target(Path& path, const WirePath& peer) {
  path.probe_target = {.address = peer.counters_address, .rkey = peer.counters_rkey};
}

Status connect_path(Path& path, const PeerEnd& peer, const Settings& settings) {
  if (peer.path->qpn.size() != path.queue_pairs.size()) {
    LOG_WARN("{}: the peer names {} queue pairs, we have {}", path.name, peer.path->qpn.size(),
             path.queue_pairs.size());
    return Errc::Protocol;
  }
  if (const Status status = look_for_route(path, peer); !status.ok()) return status;
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = static_cast<ibv_mtu>(std::min<int>(peer.path->mtu, own_port(path).mtu));
  path.ends.mtu_bytes = 128u << attr.path_mtu;
  attr.rq_psn = peer.path->psn;
  attr.max_dest_rd_atomic = 1;
  attr.min_rnr_timer = kRnrTimer;
  attr.ah_attr = address_of(path, peer, settings);
  Tries tries{.peer = peer};
  for (std::size_t i = 0; i < path.queue_pairs.size(); ++i) {
    QueuePair& queue_pair = *path.queue_pairs[i];
    if (const Status status = to_init(path, queue_pair.verbs(), settings); !status.ok())
      return status;
    queue_pair.set_started();
    path.has_ece = take_ece(path, queue_pair.verbs(), peer.path->ece);
    if (const Status status = queue_pair.fill_receive_queue(); !status.ok()) return status;
    attr.dest_qp_num = peer.path->qpn[i];
    if (const Status status = to_rtr(path, queue_pair.verbs(), attr, tries); !status.ok())
      return status;
    if (const Status status = to_rts(path, queue_pair.verbs(), peer, settings); !status.ok())
      return status;
  }
  return {};
}

}  // namespace mesh::engine
