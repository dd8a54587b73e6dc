#include "engine/link/handshake.h"

#include "engine/control/handle.h"
#include "engine/link/announce.h"
#include "engine/link/context.h"
#include "engine/link/link.h"
#include "engine/link/link_setup.h"
#include "engine/link/path_choice.h"
#include "engine/link/reception.h"
#include "engine/link/relay/known_cables.h"
#include "engine/link/relay/routes.h"
#include "src/base/check.h"
#include "src/base/log.h"
#include "src/base/random.h"
#include "src/base/timeouts.h"
#include "src/verbs/rail_traits.h"

#include <algorithm>
#include <bit>
#include <memory>
#include <string>
#include <utility>

namespace mesh::engine {

namespace {
constexpr int kServiceLevelMask = 15;

// A path as one side of the link sees it.
struct OwnEnd {
  std::uint32_t rail = 0;
  PathEnds ends;
};
std::uint32_t mtu_bytes(std::uint8_t code) { return 128u << code; }  // from an ibv_mtu
OwnEnd own_end(const WirePath& path, bool connector, const std::vector<WireRail>& peer_rails) {
  const std::uint32_t peer_rail = connector ? path.acceptor_rail : path.connector_rail;
  return {.rail = connector ? path.connector_rail : path.acceptor_rail,
          .ends = {
              .own_address = connector ? path.connector_address : path.acceptor_address,
              .peer_rail = peer_rail,
              .peer_address = connector ? path.acceptor_address : path.connector_address,
              .peer_speed_mbps = peer_rails[peer_rail].speed_mbps,
              .mtu_bytes = mtu_bytes(path.mtu),
              .port_down = peer_rails[peer_rail].up == 0,
          }};
}
}  // namespace

bool is_sane(std::uint32_t qps, std::uint32_t rq_depth, std::uint32_t slots) {
  return qps >= 1 && qps <= kQpsMax && rq_depth >= 16 && rq_depth <= 4096 &&
         std::has_single_bit(rq_depth) && slots >= 32 && slots <= kSlotsMax &&
         std::has_single_bit(slots);
}

Marking marking_of(const Settings& settings, int wish) {
  const auto first = [](int setting, int otherwise) {
    return setting != kAuto ? setting : std::max(otherwise, 0);
  };
  return {.traffic_class = first(settings.traffic_class, wish),
          .service_level = first(settings.service_level, std::max(wish, 0) & kServiceLevelMask)};
}

void Handshake::enter(LinkState state) {
  link_.set_state(state);
  step_deadline_ns_ = link_.host().now_ns() + kHandshakeStepToAnswerNs;
}

// ---- HELLO and WELCOME.

void Handshake::greet() {
  if (link_.state() != LinkState::Dialing) return;
  if (link_.waiting.empty()) return link_.take_down(Errc::PeerClosed);
  link_.terms.asked = link_.waiting.front()->asked;
  LinkHost& host = link_.host();
  const EngineOptions& options = host.options();
  host.plane().identify(link_.connection());
  source_ = host.plane().peer_address(link_.connection());
  const Settings settings = link_.settings();
  enter(LinkState::AwaitWelcome);
  hello_at_ns_ = host.now_ns();
  if (silent_addresses_ == 0) hello_until_ns_ = step_deadline_ns_;
  step_deadline_ns_ = hello_until_ns_;
  if (!link_.port.proven && link_.port.addresses.size() > 1)
    host.tend_at(hello_at_ns_ + (kHelloToNextAddressNs << silent_addresses_));
  WireProof proof;
  said_up_ = rails_up();
  if (CableProofs* const cables = host.cables(); cables != nullptr) {
    cables->withdraw(offered_);
    proof = cables->offer();
    offered_ = proof.ask;
    said_shared_ = proof.shared != 0;
  }
  link_.send(Hello{.connector_context = link_.context().id,
                   .acceptor_context = link_.identity().peer_context,
                   .host = options.provider->host_name(),
                   .host_id = options.provider->host_id(),
                   .qps = options.policy.qps,
                   .rq_depth = options.policy.rq_depth,
                   .slots = options.policy.slots,
                   .asked = link_.terms.asked,
                   .rails = describe_rails(*options.provider, host.rails()),
                   .control_port = host.plane().port(),
                   .control_addresses = portable_addresses(host.plane().addresses()),
                   .listeners = name_listeners(),
                   .traffic_class = static_cast<std::uint8_t>(settings.traffic_class),
                   .service_level = static_cast<std::uint8_t>(settings.service_level),
                   .site = settings.site,
                   .site_rq_depth = site_depth(),
                   .ticket = host.ticket(),
                   .both_ways = static_cast<std::uint8_t>(settings.both_ways),
                   .half_qps = options.policy.half_qps,
                   .proof = std::move(proof)});
}

// Returns the listeners that HELLO names: of the first connects that ask for the link's rails.
std::vector<Id128> Handshake::name_listeners() {
  std::vector<Id128> listeners;
  for (PendingConnect* const stage : link_.waiting) {
    stage->named = stage->asked == link_.terms.asked && listeners.size() < kHelloListenersMax;
    if (stage->named) listeners.push_back(stage->listener);
  }
  return listeners;
}

// Acceptor: takes what HELLO says of the peer and its wishes. Its rails are for choosing paths
// first.
void Handshake::take_terms(Hello& hello) {
  CHECK(!link_.connector() && link_.connection() != 0);
  LinkHost& host = link_.host();
  source_ = host.plane().peer_address(link_.connection());
  listeners_ = std::move(hello.listeners);
  link_.terms.peer_addresses = ways_for_others(hello.control_addresses, source_);
  link_.port = {.addresses = ways_back(std::move(hello.control_addresses), source_),
                .port = hello.control_port};
  link_.note_address();
  link_.terms.peer_host_id = hello.host_id;
  say_name_twice(link_);
  link_.terms.peer_ticket = hello.ticket;
  said_shared_ = hello.proof.shared != 0;
  link_.terms.marking = {.traffic_class = hello.traffic_class,
                         .service_level = hello.service_level};
  link_.context().name_listeners(link_, listeners_);
}

void Handshake::accept(Hello hello, PathChoice choice) {
  LinkHost& host = link_.host();
  if (link_.state() != LinkState::Proving) take_terms(hello);
  link_.terms.peer_rails = std::move(hello.rails);
  link_.terms.cables = topo::turned(choice.proof);
  if (some_device_lags(choice.sets.primary)) return turn_away();
  enter(LinkState::Making);
  link_.note_idle();
  psn_ = random_psn();
  cross_to(hello.site, 0);
  TransferPolicy policy = policy_towards(hello.site);
  const bool halves = has_halves(choice.sets.primary, link_.terms.peer_rails, own_rails());
  policy.qps = halves ? std::min(policy.half_qps, hello.half_qps) : std::min(policy.qps, hello.qps);
  policy.rq_depth = std::min(policy.rq_depth,
                             link_.terms.crossing.apart() ? hello.site_rq_depth : hello.rq_depth);
  policy.slots = std::min(policy.slots, hello.slots);
  if (!build(policy, {.sets = choice.sets,
                      .beside = choice.beside,
                      .by_proof = choice.by_proof != 0,
                      .relayed = choice.relayed,
                      .none = choice.no_path}))
    return end_unmade();
  welcome_ = std::make_unique<Welcome>(Welcome{.host = host.options().provider->host_name(),
                                               .host_id = host.options().provider->host_id(),
                                               .qps = policy.qps,
                                               .rq_depth = policy.rq_depth,
                                               .slots = policy.slots,
                                               .rails = {},
                                               .paths = std::move(choice.sets.primary),
                                               .meet = std::move(choice.meet),
                                               .standby = std::move(choice.sets.standby),
                                               .no_path = std::move(choice.no_path),
                                               .site = link_.terms.crossing.own,
                                               .relayed = choice.relayed,
                                               .ticket = host.ticket(),
                                               .beside = std::move(choice.beside),
                                               .cables = told_cables(choice.proof),
                                               .by_proof = choice.by_proof});
  if (link_.peer_link().paths().count() == 0) return welcome();
  link_.begin_bring_up(to_make());
}

// Makes the paths, without their queue pairs.
bool Handshake::build(const TransferPolicy& policy, const PathPlan& plan) {
  auto made = std::make_unique<PeerLink>(link_.context().loop, link_.host().channel_owner(),
                                         link_.identity(), policy);
  PeerLink& peer_link = *made;
  peer_link.paths().expect(plan.sets.primary.size() + plan.beside.size() +
                           plan.sets.standby.size() + (plan.by_proof ? 1 : 0) + plan.relayed);
  const auto add_all = [&](std::span<const WirePath> paths, PathClass kind) {
    return std::all_of(paths.begin(), paths.end(),
                       [&](const WirePath& path) { return add_path(peer_link, path, kind); });
  };
  const bool complete = add_all(plan.sets.primary, PathClass::Primary) &&
                        add_all(plan.beside, PathClass::Beside) &&
                        add_all(plan.sets.standby, PathClass::Standby);
  if (complete) add_places(peer_link, plan);
  PathSet& paths = peer_link.paths();
  if (complete && paths.count() == 0) {
    paths.add_none(*link_.context().loop.devices.front());
    peer_link.reach().be_unreachable(plan.none);
  }
  std::vector<LinkMemory::Key> keys;
  for (Path& path : paths.all()) {
    if (!path.ends.is_place()) path.cable_rails = rails_of_cable(plan, path.device->rail());
    configure_path(peer_link, path, link_.host().options().settings);
    keys.push_back({.device = path.device, .spare = path.ends.is_place() || path.tier != 0});
  }
  for (const auto& device : link_.context().loop.devices)
    if (names_rails(paths)) keys.push_back({.device = device.get(), .spare = true});
  if (complete) paths.order();
  link_.set_peer_link(std::move(made));
  if (!complete) return false;
  mark_guesses(plan);
  const std::size_t bytes = link_.connector() ? policy.slots * credit_bytes(paths.primary_count())
                                              : policy.slots * sizeof(Record);
  peer_link.memory().configure(bytes, std::move(keys));
  return true;
}

bool Handshake::add_path(PeerLink& to, const WirePath& path, PathClass kind) {
  OwnEnd own = own_end(path, link_.connector(), link_.terms.peer_rails);
  DeviceContext& device = *link_.context().loop.devices[own.rail];
  own.ends.port_down |= !verbs::port_is_up(device.provider(), device.rail());
  own.ends.relayed = kind == PathClass::Beside;
  const WireRail& peer = link_.terms.peer_rails[own.ends.peer_rail];
  std::string name =
      own.ends.relayed ? relayed_name(device, peer) : path_name(device, own.ends, peer);
  if (kind == PathClass::Primary) {
    to.paths().add_primary(device, own.ends, std::move(name));
  } else if (kind == PathClass::Beside) {
    to.paths().add_beside(device, own.ends, std::move(name));
  } else {
    to.paths().add_standby(device, own.ends, std::move(name));
  }
  return true;
}

// Adds the paths whose rails are not named yet: each of ours may carry them.
void Handshake::add_places(PeerLink& to, const PathPlan& plan) {
  const auto& devices = link_.context().loop.devices;
  const bool over_hosts = plan.relayed != 0 || !plan.beside.empty();
  if (over_hosts && to.paths().count() == 0) to.reach().be_lazy(plan.none);
  if (plan.by_proof) to.paths().add_place(*devices.front(), "over another cable", 0);
  for (std::uint32_t place = 0; place < plan.relayed; ++place) {
    const HostsBetween between = hosts_of_place(place, plan.relayed);
    to.paths().add_place(*devices.front(), "over " + hosts_text(between), between.least);
  }
}

// Returns how many of our rails that lead to this peer are on one cable with a rail.
std::uint32_t Handshake::rails_of_cable(const PathPlan& plan, const verbs::Rail& rail) const {
  std::uint64_t meeting = 0;
  for (const auto* const paths : {&plan.sets.primary, &plan.sets.standby}) {
    for (const WirePath& path : *paths)
      meeting |= std::uint64_t{1} << (link_.connector() ? path.connector_rail : path.acceptor_rail);
  }
  return verbs::rails_of_cable(link_.host().rails(), rail, meeting);
}

// Returns how many primary paths come up with the link. Paths over other hosts do not.
std::uint32_t Handshake::attached_count() const noexcept {
  return link_.peer_link().reach().all_relayed() ? 0 : link_.peer_link().paths().direct_count();
}

bool Handshake::on(const Welcome& body) {
  if (!fits(body)) {
    LOG_WARN("peer {}: its WELCOME does not match our HELLO; connection dropped", body.host);
    return false;
  }
  if (was_asked_in_vain(body)) return true;
  link_.name_peer(body.host);
  link_.terms.peer_host_id = body.host_id;
  link_.terms.peer_rails = body.rails;
  link_.terms.peer_ticket = body.ticket;
  link_.terms.cables = heard_cables(body.cables);
  meet_ = body.meet;
  say_name_twice(link_);
  if (CableProofs* const cables = link_.host().cables(); cables != nullptr) {
    take_one_way(link_, offered_);
    cables->withdraw(offered_);
    cables->note_met(body.ticket, link_.terms.cables.met);
  }
  link_.distribute_connects();
  cross_to(body.site, std::min(link_.host().now_ns() - hello_at_ns_, kHelloToWelcomeMaxNs));
  TransferPolicy policy = policy_towards(body.site);
  policy.qps = body.qps;
  policy.late_qps = !body.paths.empty() && body.paths.front().qpn.size() == 1;
  policy.rq_depth = body.rq_depth;
  policy.slots = body.slots;
  psn_ = random_psn();
  const PathSets sets{.primary = body.paths, .standby = body.standby};
  const PathPlan plan{.sets = sets,
                      .beside = body.beside,
                      .by_proof = body.by_proof != 0,
                      .relayed = body.relayed,
                      .none = body.no_path};
  if (!build(policy, plan)) {
    end_unmade();
  } else if (link_.peer_link().paths().count() == 0) {
    enter(LinkState::AwaitReady);
    link_.send(Attach{});
  } else {
    for (std::uint32_t i = 0; i < body.paths.size(); ++i)
      set_probe_target(link_.peer_link().paths()[i], body.paths[i]);
    bring_up(body.paths, {});
  }
  return true;
}

std::size_t Handshake::window_bytes() const noexcept {
  const PeerLink& peer_link = link_.peer_link();
  return std::size_t{peer_link.paths().count()} * (1 + peer_link.policy().qps) * kWindowWords *
         sizeof(std::uint64_t);
}

// ---- Queue pairs: ATTACH and READY.

// Returns true if the link has all paths of this list. The list may name every path of the link:
// its only card may have left, and the paths are opened when another card is in the place.
bool Handshake::may_be_down(const std::vector<std::uint8_t>& down) const {
  const std::uint32_t paths = attached_count();
  const bool known =
      std::all_of(down.begin(), down.end(), [paths](std::uint8_t index) { return index < paths; });
  return known || link_.complain(fmt::format(
                      "says that a path is down which is none of the {} it has", paths));
}

// `down`: indices of paths that the peer could not bring up. If a port of a path is down, the
// kernel would ask for the peer's address for seconds, so the connector leaves this path out,
// unless all paths are like that and the link has no standby path.
void Handshake::bring_up(const std::vector<WirePath>& paths,
                         const std::vector<std::uint8_t>& down) {
  BringUp::Order order = to_make();
  if (!link_.connector()) {  // an acceptor's were made before WELCOME
    order.makes.clear();
    order.has_records = false;
  }
  order.peer_rails = link_.terms.peer_rails;
  order.psn = psn_;
  const PeerLink& peer_link = link_.peer_link();
  bool some_port_pair_is_up = peer_link.paths().standby_count() != 0;
  for (std::uint32_t i = 0; i < paths.size(); ++i)
    some_port_pair_is_up |= !peer_link.paths()[i].ends.port_down;
  for (std::uint32_t i = 0; i < paths.size(); ++i) {
    if (std::find(down.begin(), down.end(), i) != down.end()) continue;
    if (peer_link.paths()[i].device->gone()) continue;
    if (link_.connector() && some_port_pair_is_up && peer_link.paths()[i].ends.port_down) continue;
    order.paths.push_back(paths[i]);
    order.indices.push_back(i);
  }
  enter(LinkState::Connecting);
  link_.begin_bring_up(std::move(order));
}

void Handshake::bring_up_starts() {
  const LinkState state = link_.state();
  if (state == LinkState::Making || state == LinkState::Connecting) enter(state);
}

namespace {
// Returns the first path that is not up and has a cause, with that cause; empty if there is none.
std::string failed_path(const PathSet& paths) {
  for (const Path& path : paths.all()) {
    if (path.health.state != PathState::Up && !path.health.last_cause.empty())
      return fmt::format("{}: {}", path.name, path.health.last_cause);
  }
  return {};
}
}  // namespace

void Handshake::brought_up(const BringUp& done) {
  CHECK(done.over() && done.is_of_link());
  if (done.unmade()) return end_unmade();
  if (done.window_words() != nullptr) link_.terms.window_words = *done.window_words();
  if (link_.state() == LinkState::Making) return welcome();
  if (met_nobody(done)) return;
  if (done.outcome() != Errc::Ok && link_.peer_link().paths().standby_count() == 0) {
    const ProgressLoop::Guard guard(link_.context().loop);
    PeerLink& link = link_.peer_link();
    link.fail(done.outcome(), failed_path(link.paths()), LogLevel::Detail);
  } else if (link_.connector()) {
    attach(done);
  } else {
    ready(done);
  }
}

// Returns the paths that failed and the paths that were not tried.
std::vector<std::uint8_t> Handshake::not_up(const BringUp& done) const {
  const auto holds = [](const std::vector<std::uint32_t>& list, std::uint32_t index) {
    return std::find(list.begin(), list.end(), index) != list.end();
  };
  std::vector<std::uint8_t> down;
  for (std::uint32_t i = 0; i < attached_count(); ++i) {
    if (!holds(done.indices(), i) || holds(done.failed(), i))
      down.push_back(static_cast<std::uint8_t>(i));
  }
  return down;
}

void Handshake::attach(const BringUp& done) {
  CHECK(link_.connector() && link_.state() == LinkState::Connecting);
  Attach attach;
  for (std::uint32_t i = 0; i < attached_count(); ++i)
    attach.paths.push_back(offer_path(link_.peer_link(), i, link_.terms.window_words, psn_));
  attach.down = not_up(done);
  attach.round_trip_us = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(link_.terms.crossing.round_trip_ns / 1000, kRoundTripMaxUs));
  link_.leave_out(attach.down);
  enter(LinkState::AwaitReady);
  link_.send(attach);
}

bool Handshake::on(const Attach& body) {
  if (body.paths.size() != attached_count()) {
    return link_.complain(
        fmt::format("attaches {} paths, {} were offered", body.paths.size(), attached_count()));
  }
  if (!may_be_down(body.down)) return false;
  link_.terms.crossing.round_trip_ns = std::uint64_t{body.round_trip_us} * 1000;
  if (attached_count() != 0) {
    bring_up(body.paths, body.down);
    return true;
  }
  enter(LinkState::Up);
  link_.send(Ready{});
  return true;
}

void Handshake::ready(const BringUp& done) {
  CHECK(!link_.connector() && link_.state() == LinkState::Connecting);
  PeerLink& peer_link = link_.peer_link();
  for (std::size_t tried = 0; tried < done.indices().size(); ++tried)
    set_peer_windows(peer_link.paths()[done.indices()[tried]].queue_pairs, done.paths()[tried]);
  const std::vector<std::uint8_t> down = not_up(done);
  link_.leave_out(down);
  drop_guesses();
  enter(LinkState::Up);
  link_.send(Ready{.down = down});
}

bool Handshake::on(const Ready& body) {
  if (!may_be_down(body.down)) return false;
  link_.leave_out(body.down);
  drop_guesses();
  link_.set_state(LinkState::Up);
  probe_paths();
  link_.note_address();
  begin_measure();
  await_signs();
  if (!holds_channels()) link_.open_channels();
  return true;
}

// Nothing waits for these probes: channels open meanwhile.
void Handshake::probe_paths() {
  PeerLink& peer_link = link_.peer_link();
  const ProgressLoop::Guard guard(link_.context().loop);
  for (Path& path : peer_link.paths().all()) {
    if (path.health.state == PathState::Up) peer_link.probe(path);
  }
}

}  // namespace mesh::engine
