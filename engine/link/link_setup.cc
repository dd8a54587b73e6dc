#include "engine/link/link_setup.h"

#include "engine/link/path_choice.h"
#include "engine/link/queue_pair_states.h"
#include "src/base/check.h"
#include "src/base/log.h"
#include "src/base/timeouts.h"
#include "src/topo/pairing.h"
#include "src/verbs/gid_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace mesh::engine {

namespace {
// 8 times the default. 4 queue pairs with stripes of 64 KiB then hold 512 MiB, which a path of 100
// Gb/s carries in 43 ms.
constexpr std::uint32_t kLongDepth = 2048;
constexpr std::uint64_t kTimerRoundTrips = 8;
constexpr std::uint64_t kTimeoutRoundTrips = 100;
constexpr int kAckTimerMax = 31;
}  // namespace

std::string site_refusal(const std::string& own_host, const std::string& own_site,
                         const std::string& peer_host, const std::string& peer_site) {
  if (own_site.empty() == peer_site.empty()) return {};
  const bool own = !own_site.empty();
  return fmt::format(
      "host {} is at site {} and host {} names none: set NCCL_MESH_SITE on every host or on none",
      own ? own_host : peer_host, own ? own_site : peer_site, own ? peer_host : own_host);
}

std::uint32_t long_depth(std::uint32_t usual, int limit) {
  const std::uint32_t wanted = std::max(usual, kLongDepth);
  if (limit <= 0) return wanted;
  return std::max(std::min(wanted, std::bit_floor(static_cast<std::uint32_t>(limit))), usual);
}

std::uint64_t long_inflight_bytes(const TransferPolicy& policy, const LongPath& path) {
  if (policy.inflight_us == 0 || path.speed_mbps == 0) return path.usual_inflight_bytes;
  // Mb/s times us gives bits.
  return path.usual_inflight_bytes + path.round_trip_ns / 1000 * path.speed_mbps / 8;
}

int long_ack_timer(int usual, std::uint64_t round_trip_ns) {
  if (usual == 0) return 0;
  const std::uint64_t units = kTimerRoundTrips * round_trip_ns / kAckTimerUnitNs;
  return std::clamp(static_cast<int>(std::bit_width(units)), usual, std::max(usual, kAckTimerMax));
}

std::uint64_t long_path_timeout_ns(std::uint64_t usual_ns, std::uint64_t round_trip_ns) {
  return usual_ns + kTimeoutRoundTrips * round_trip_ns;
}

namespace {
// Returns the level of lines about a failure. It is no news at a later try, whose cause the end of
// the link names, nor on a path whose rails may not meet at all.
LogLevel failure_level(const Path& path, const PeerEnd& peer) {
  return path.ends.guessed || peer.again ? LogLevel::Detail : LogLevel::Warn;
}

// Fails if this host would not send to the peer by this port, neither by its own subnet nor by a
// route. Otherwise the kernel would ask the wire for a second.
Status look_for_route(const Path& path, const PeerEnd& peer) {
  const verbs::Rail& rail = path.device->rail();
  const WireAddress& to = peer.rail->addresses[path.ends.peer_address];
  const verbs::GidEntry& from = rail.gids[path.ends.own_address];
  if (!rail.ethernet || topo::same_subnet({verbs::address_of(from.gid), from.prefix_len},
                                          {verbs::address_of(gid_of(to)), to.prefix_len}))
    return {};
  const verbs::Route route = path.device->provider().route(from, gid_of(to));
  if (route.kind == verbs::RouteKind::ByPort || route.kind == verbs::RouteKind::Unknown) return {};
  const std::string text =
      route.kind == verbs::RouteKind::None
          ? fmt::format("{}: this host has no route to that address", path.name)
          : fmt::format("{}: this host's route to that address leaves by {}", path.name,
                        route.netdev);
  MESH_LOG(failure_level(path, peer), "{}", text);
  return Errc::Transport;
}

Status say_address_lost(const Path& path, const PeerEnd& peer) {
  MESH_LOG(failure_level(path, peer), "{}: our port has lost its address", path.name);
  return Errc::Transport;
}

// Sets options that the peer's device offers, or has accepted from ours. If our device refuses them
// the queue pair works without: they are a gain, not a need.
bool take_ece(const Path& path, QueuePair& queue_pair, const WireEce& peer) {
  if (!path.wants_ece || peer.vendor == 0) return false;
  ibv_ece ece{.vendor_id = peer.vendor, .options = peer.options, .comp_mask = peer.mask};
  const int error = queue_pair.provider().set_ece(queue_pair.verbs(), &ece);
  if (error != 0) LOG_INFO("{}: no vendor options (ECE): {}", path.name, std::strerror(error));
  return error == 0;
}

WireEce ece_of(const Path& path) {
  return {.vendor = path.ece.vendor_id, .options = path.ece.options, .mask = path.ece.comp_mask};
}

// A port that was down at the start says more when it is up.
verbs::PortNow own_port(const Path& path) {
  return verbs::port_now(path.device->provider(), path.device->rail());
}

// The kernel may have given the address another index since, if its interface was down.
std::optional<int> own_gid_index(const Path& path) {
  return verbs::gid_index_now(path.device->provider(), path.device->rail(), path.ends.own_address);
}

PortEnd port_end(const Path& path, verbs::Provider& provider, int gid_index,
                 const Settings& settings) {
  return {.provider = provider,
          .rail = path.device->rail(),
          .address = path.ends.own_address,
          .gid_index = gid_index,
          .settings = settings,
          .name = path.name};
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
  wire.gid_type = static_cast<std::uint8_t>(rail.gids.front().type);
  wire.partition = rail.pkey;
  wire.speed_mbps = rail.info.speed_mbps;
  wire.guid = rail.info.guid;
  wire.name = rail.info.name;
  return wire;
}

namespace {
// Returns the speed of all ports that share the slot of a rail.
std::uint64_t slot_load_mbps(std::span<const WireRail> described,
                             std::span<const verbs::Rail> rails, std::size_t rail) {
  std::uint64_t mbps = 0;
  for (std::size_t i = 0; i < rails.size(); ++i)
    if (i == rail || rails[i].slot == rails[rail].slot) mbps += described[i].speed_mbps;
  return mbps;
}
}  // namespace

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
  for (std::size_t i = 0; i < described.size(); ++i)
    described[i].slot_has_room = slot_load_mbps(described, rails, i) <= rails[i].slot_mbps ? 1 : 0;
  return described;
}

std::string narrow_slot_text(verbs::Provider& provider, std::span<const verbs::Rail> rails) {
  const std::vector<WireRail> described = describe_rails(provider, rails);
  for (std::size_t i = 0; i < rails.size(); ++i) {
    if (described[i].slot_has_room != 0) continue;
    if (rails[i].slot_mbps == 0)
      return fmt::format("what the PCIe slot of {} carries is not known", rails[i].info.name);
    return fmt::format("PCIe slot {} carries {} Gb/s each way, and its ports {}", rails[i].slot,
                       rails[i].slot_mbps / 1000, slot_load_mbps(described, rails, i) / 1000);
  }
  return {};
}

bool slots_have_room(std::span<const WireRail> rails) noexcept {
  return std::all_of(rails.begin(), rails.end(),
                     [](const WireRail& rail) { return rail.slot_has_room != 0; });
}

void take_port_speed(PeerLink& link, Path& path) {
  path.set_port_speed(link.policy(), own_port(path).speed_mbps);
}

void configure_path(PeerLink& link, Path& path, const Settings& settings) {
  take_port_speed(link, path);
  const auto routes_adaptively = [](const auto& device) { return !device->rail().ethernet; };
  const auto& devices = link.loop().devices;
  const bool adaptive = settings.adaptive_routing != kAuto ? settings.adaptive_routing != 0
                        : path.ends.is_place()  // any rail may become its own
                            ? std::any_of(devices.begin(), devices.end(), routes_adaptively)
                            : routes_adaptively(path.device);
  path.apart_above = adaptive ? static_cast<std::uint64_t>(settings.ar_threshold) : UINT64_MAX;
  path.wants_ece = settings.ece != 0;
}

namespace {
using QueuePairs = std::span<const std::unique_ptr<QueuePair>>;

WirePath describe(Path& path, QueuePairs queue_pairs, std::uint32_t psn,
                  const verbs::RemoteTarget& written) {
  WirePath wire;
  wire.psn = psn;
  const verbs::Rail& rail = path.device->rail();
  const std::uint16_t known = path.own_lid != 0 ? path.own_lid : rail.lid;
  wire.lid = path.own_lid = verbs::current_lid(path.device->provider(), rail).value_or(known);
  wire.mtu = static_cast<std::uint8_t>(own_port(path).mtu);
  wire.counters_address = written.address;
  wire.counters_rkey = written.rkey;
  // A path without queue pairs is left out: the card of its rail has left.
  for (const auto& queue_pair : queue_pairs)
    wire.qpn.push_back(queue_pair->verbs() == nullptr ? 0 : queue_pair->verbs()->qp_num);
  wire.ece = ece_of(path);
  return wire;
}

// Gives each of these queue pairs its window words, as zeros. The peer writes nothing there now: it
// does not know the queue pairs yet, and former ones of the path are fenced.
verbs::RemoteTarget give_window_words(const PeerLink& link, const Path& path,
                                      QueuePairs queue_pairs, const PeerWritable& window_words) {
  CHECK(window_words.memory != nullptr);
  const std::size_t words_per_path = std::size_t{1 + link.policy().qps} * kWindowWords;
  auto* const words =
      reinterpret_cast<std::uint64_t*>(window_words.memory) + path.index * words_per_path;
  for (const auto& queue_pair : queue_pairs) {
    std::uint64_t* const own = words + std::size_t{queue_pair->index()} * kWindowWords;
    std::fill_n(own, kWindowWords, 0);
    SendQueuePair::of(*queue_pair).set_window_words(own);
  }
  return {.address = reinterpret_cast<std::uint64_t>(words),
          .rkey = window_words.rkeys[path.own_key]};
}
}  // namespace

WirePath describe_path(Path& path, std::uint32_t psn, const verbs::RemoteTarget& written) {
  return describe(path, path.queue_pairs, psn, written);
}

WirePath offer_path(PeerLink& link, std::uint32_t index, const PeerWritable& window_words,
                    std::uint32_t psn) {
  Path& path = link.paths()[index];
  return describe_path(path, psn, give_window_words(link, path, path.queue_pairs, window_words));
}

WirePath describe_late(Path& path, std::uint32_t psn, const verbs::RemoteTarget& written) {
  return describe(path, path.late, psn, written);
}

WirePath offer_late(PeerLink& link, Path& path, const PeerWritable& window_words,
                    std::uint32_t psn) {
  return describe_late(path, psn, give_window_words(link, path, path.late, window_words));
}

void set_inflight(Path& path, const SiteCrossing& crossing, const TransferPolicy& policy) {
  if (!crossing.apart()) return;
  path.inflight_bytes_max =
      long_inflight_bytes(policy, {.speed_mbps = path.speed_mbps,
                                   .round_trip_ns = crossing.round_trip_ns,
                                   .usual_inflight_bytes = path.usual_inflight_bytes});
}

WireHop describe_hop(Path& path, const WirePath& ends) {
  WireHop hop{.address = describe_rail(path.device->rail()).addresses[path.ends.own_address],
              .lid = ends.lid,
              .mtu = ends.mtu,
              .psn = ends.psn};
  for (const auto& queue_pair : path.queue_pairs) {
    hop.qps.push_back({.qpn = queue_pair->verbs()->qp_num,
                       .counts = path.device->relay_end().counts(queue_pair->verbs())});
  }
  return hop;
}

Status take_hop(Path& path, const WireHop& hop) {
  if (hop.qps.size() != path.queue_pairs.size()) return Errc::InvalidArgument;
  for (std::size_t i = 0; i < hop.qps.size(); ++i) {
    const Status status =
        path.device->relay_end().set_ring(path.queue_pairs[i]->verbs(), hop.qps[i].ring);
    if (!status.ok()) return status;
  }
  return {};
}

bool names_rails(const PathSet& paths) noexcept {
  return std::any_of(paths.all().begin(), paths.all().end(),
                     [](const Path& path) { return path.ends.is_place(); });
}

std::string path_name(const DeviceContext& device, const PathEnds& ends, const WireRail& peer) {
  return fmt::format("{} {} -> {} {}", device.name(),
                     address_text(describe_rail(device.rail()).addresses[ends.own_address]),
                     peer.name, address_text(peer.addresses[ends.peer_address]));
}

std::string relayed_name(const DeviceContext& device, const WireRail& peer) {
  return fmt::format("{} -> {}", device.name(), peer.name);
}

WirePath over_hop(WirePath ends, const WireHop& hop) {
  ends.lid = hop.lid;
  ends.mtu = hop.mtu;  // each hop has its own MTU; both its ends must agree
  ends.psn = hop.psn;
  ends.ece = {};
  ends.qpn.clear();
  for (const WireHopQp& each : hop.qps) ends.qpn.push_back(each.qpn);
  return ends;
}

std::vector<WireRail> with_hop(std::vector<WireRail> peer_rails, const Path& path,
                               const WireHop& hop) {
  std::vector<WireAddress>& addresses = peer_rails[path.ends.peer_rail].addresses;
  addresses[path.ends.peer_address] = hop.address;
  return peer_rails;
}

void set_peer_windows(std::span<const std::unique_ptr<QueuePair>> queue_pairs,
                      const WirePath& peer) {
  for (const auto& queue_pair : queue_pairs) {
    const std::size_t before = queue_pair->index() * kWindowWords * sizeof(std::uint64_t);
    RecvQueuePair::of(*queue_pair)
        .set_peer_window({.address = peer.counters_address + before, .rkey = peer.counters_rkey});
  }
}

void set_probe_target(Path& path, const WirePath& peer) {
  path.probe_target = {.address = peer.counters_address, .rkey = peer.counters_rkey};
}

void note_ece(Path& path, const QueuePair& one) {
  ibv_ece ece{};
  const bool has = path.wants_ece && (!one.started() || path.has_ece) &&
                   one.provider().query_ece(one.verbs(), &ece) == 0;
  path.ece = has ? ece : ibv_ece{};
}

namespace {
// Moves a queue pair to INIT or RTS. RTR is another matter: the kernel may look for the peer's
// address for seconds.
template <typename Move>
Status await_device(const Path& path, const Move& move) {
  const CallWatch::Call waits(path.device->calls, path.device->name(), "ibv_modify_qp");
  return move();
}

}  // namespace

Status connect_path(Path& path, const PeerEnd& peer, const Settings& settings) {
  const std::span<const std::unique_ptr<QueuePair>> queue_pairs =
      peer.late ? path.late : path.queue_pairs;
  if (peer.path->qpn.size() != queue_pairs.size()) {
    LOG_WARN("{}: the peer names {} queue pairs, we have {}", path.name, peer.path->qpn.size(),
             queue_pairs.size());
    return Errc::Protocol;
  }
  if (const Status status = look_for_route(path, peer); !status.ok()) return status;
  verbs::look_at_port(path.device->provider(), path.device->rail());
  const std::optional<int> gid_index = own_gid_index(path);
  if (!gid_index) return say_address_lost(path, peer);
  FarEnd far{.gid = gid_of(peer.rail->addresses[path.ends.peer_address]),
             .lid = peer.path->lid,
             .psn = peer.path->psn,
             .mtu = static_cast<ibv_mtu>(std::min<int>(peer.path->mtu, own_port(path).mtu))};
  if (!peer.late) path.ends.mtu_bytes = 128u << far.mtu;
  ResolveTries tries{.abandoned = peer.abandoned, .level = failure_level(path, peer)};
  for (std::size_t i = 0; i < queue_pairs.size(); ++i) {
    QueuePair& queue_pair = *queue_pairs[i];
    const PortEnd own = port_end(path, queue_pair.provider(), *gid_index, settings);
    const Status init = await_device(path, [&] { return to_init(own, queue_pair.verbs()); });
    if (!init.ok()) return init;
    queue_pair.set_started();
    const bool has_ece = take_ece(path, queue_pair, peer.path->ece);
    if (!peer.late) path.has_ece = has_ece;  // the express one tells
    if (const Status status = queue_pair.receives().fill(queue_pair.verbs()); !status.ok())
      return status;
    far.qpn = peer.path->qpn[i];
    if (const Status status = to_rtr(own, queue_pair.verbs(), far, tries); !status.ok())
      return status;
    const Status rts =
        await_device(path, [&] { return to_rts(own, queue_pair.verbs(), peer.own_psn); });
    if (!rts.ok()) return rts;
  }
  note_ece(path, *queue_pairs[0]);
  return {};
}

}  // namespace mesh::engine
