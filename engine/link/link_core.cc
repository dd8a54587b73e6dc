#include "engine/link/link_core.h"

#include "engine/link/context.h"
#include "engine/link/link.h"
#include "src/base/log.h"
#include "src/base/timeouts.h"

#include <algorithm>

namespace mesh::engine {

LinkCore::LinkCore(LinkHost& host, Context& context, LinkIdentity identity)
    : host_(host), context_(context), identity_(std::move(identity)) {
  context_.restless.reserve_for(context_.links.size() + 1);
  context_.idle.reserve_for(context_.links.size() + 1);
}

LinkCore::~LinkCore() {
  if (peer_link_) host_.index().remove(*peer_link_);
}

Link& LinkCore::whole() noexcept { return static_cast<Link&>(*this); }

// ---- Identity.

bool LinkCore::is(const Link* link) const noexcept { return link == this; }

std::uint64_t LinkCore::path_timeout_ns() const noexcept {
  const auto usual_ns =
      static_cast<std::uint64_t>(host_.options().settings.path_timeout_s) * kNsPerSecond;
  return terms.crossing.apart() ? long_path_timeout_ns(usual_ns, terms.crossing.round_trip_ns)
                                : usual_ns;
}

Settings LinkCore::settings() const {
  Settings settings = host_.options().settings;
  settings.traffic_class = terms.marking.traffic_class;
  settings.service_level = terms.marking.service_level;
  if (terms.crossing.apart())
    settings.timeout = long_ack_timer(settings.timeout, terms.crossing.round_trip_ns);
  return settings;
}

// ---- State.

void LinkCore::list() noexcept {
  context_.restless.add(whole());
  listed_ = true;
}

void LinkCore::note_idle() noexcept {
  if (connector() || listed_idle_) return;
  context_.idle.add(whole());
  listed_idle_ = true;
}

bool LinkCore::over() const noexcept {
  return !usable() || (peer_link_ && peer_link_->channels().all_ended() && waiting.empty());
}

bool LinkCore::carries_nothing() const noexcept {
  if (connector()) return false;
  if (state_ == LinkState::Making || state_ == LinkState::AwaitAttach ||
      state_ == LinkState::Connecting)
    return true;
  if (state_ != LinkState::Up) return false;
  bool said_every_close = true;
  peer_link().channels().for_each(
      [&](const Channel& channel) { said_every_close &= channel.closing.close_sent; });
  return said_every_close;
}

// ---- Frames, and the connection that carries them.

void LinkCore::index_connection(ConnectionId was, ConnectionId now) noexcept {
  if (was != 0) host_.index().remove(was);
  if (now != 0) host_.index().add(now, whole());
}

void LinkCore::drop_connection() noexcept {
  if (connection_ != 0) host_.plane().close(connection_);
  set_connection(0);
}

void LinkCore::dial_all() {
  set_connection(host_.plane().dial({.addresses = port.addresses, .port = port.port}));
}

void LinkCore::note_address() {
  const SocketAddress address = host_.plane().peer_address(connection_);
  const auto found =
      std::find_if(port.addresses.begin(), port.addresses.end(),
                   [&](const SocketAddress& each) { return each.same_host(address); });
  if (found == port.addresses.end()) return;
  *found = address;
  std::rotate(port.addresses.begin(), found, found + 1);
  port.proven = true;
}

void LinkCore::say(Bytes frame) {
  if (connection_ != 0) host_.plane().send(connection_, frame);  // a lost connection reports itself
  conversation_.keep(std::move(frame));
}

void LinkCore::fail_connect(PendingConnect& stage, Errc why) noexcept {
  CHECK(is(stage.link));
  std::erase(waiting, &stage);
  stage.channel = nullptr;
  stage.link = nullptr;  // the stage lives until NCCL asks; its link may end before
  stage.state = StageState::Failed;
  stage.error = why;
}

// ---- Log lines.

bool LinkCore::may_cause_lines() const {
  return connector() || has_carried() || host_.unauthenticated_lines().take(host_.now_ns());
}

bool LinkCore::complain(const std::string& text) const {
  if (may_cause_lines()) {
    LOG_WARN("peer {}: {}; connection dropped{}", identity_.peer_host, text,
             host_.unauthenticated_lines().rest());
  }
  return false;
}

namespace {
std::string crossing_text(const LinkCore& link) {
  const SiteCrossing& crossing = link.terms.crossing;
  if (!crossing.apart()) return {};
  std::uint64_t inflight_bytes = 0;
  for (const Path& path : link.peer_link().paths().all())
    inflight_bytes = std::max(inflight_bytes, path.inflight_bytes_max);
  std::string text = fmt::format("; from site {} to site {}, round trip {} us", crossing.own,
                                 crossing.peer, crossing.round_trip_ns / 1000);
  if (!link.connector()) return text;
  return fmt::format("{}, up to {} MiB in flight on a path", text, inflight_bytes >> 20);
}
}  // namespace

void announce(const LinkCore& link) {
  const PeerLink& peer_link = link.peer_link();
  if (peer_link.reach().unreachable()) {
    LOG_INFO(
        "{} host {}: {}; what NCCL connects and never uses does no harm, the first message would "
        "fail; NCCL_ALGO=Ring keeps to neighbours, or cable the two hosts",
        link.connector() ? "sending to" : "receiving from", link.identity().peer_host,
        peer_link.reach().why());
    return;
  }
  if (peer_link.reach().all_relayed()) {
    LOG_INFO("{} host {}: {}; the first message opens a path over hosts between the two",
             link.connector() ? "sending to" : "receiving from", link.identity().peer_host,
             peer_link.reach().why());
    return;
  }
  const TransferPolicy& policy = peer_link.policy();
  std::string paths;
  bool wanted = false, told_relayed = false;
  for (std::uint32_t i = 0; i < peer_link.paths().count(); ++i) {
    const Path& path = peer_link.paths()[i];
    const bool first_standby = i == peer_link.paths().primary_count();
    const bool beside = peer_link.paths().is_beside(i);
    if (path.ends.relayed && !beside && told_relayed) continue;  // one word for all of them
    told_relayed |= path.ends.relayed && !beside;
    paths += (i == 0          ? ""
              : first_standby ? "; standby: "
              : beside        ? "; beside: "
                              : ", ") +
             (path.ends.relayed && !beside ? "over other hosts" : path.name);
    wanted |= path.tier == 0 && path.rail == link.terms.asked.rail;
  }
  std::size_t queue_pairs = 0;
  for (const auto& device : link.context().loop.devices) queue_pairs += device->queue_pair_count();
  LOG_INFO(
      "{} host {}: {}; per path 1 express + {} bulk queue pairs, inline {} B, express to {} B, "
      "stripes from {} B, "
      "1 signal in {}, window {}; {} queue pairs in this communicator{}",
      link.connector() ? "sending to" : "receiving from", link.identity().peer_host, paths,
      policy.qps, policy.inline_bytes, policy.express_bytes, policy.stripe_bytes,
      policy.signal_interval, policy.rq_depth, queue_pairs, crossing_text(link));
  if (link.connector() && !wanted) {
    LOG_INFO("device {} does not reach host {}; using {} instead",
             link.host().rails()[link.terms.asked.rail].info.name, link.identity().peer_host,
             peer_link.paths()[0].device->name());
  }
}

}  // namespace mesh::engine
