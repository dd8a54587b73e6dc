#include "engine/link/link_core.h"

#include "engine/link/context.h"
#include "engine/link/link.h"
#include "src/base/log.h"
#include "src/base/timeouts.h"

#include <algorithm>
#include <exception>

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

const BringUp* LinkCore::bring_up() const noexcept {
  const auto found = std::find_if(bring_ups_.begin(), bring_ups_.end(),
                                  [](const auto& each) { return each->is_of_link(); });
  return found == bring_ups_.end() ? nullptr : found->get();
}

bool LinkCore::rises(std::uint32_t path) const noexcept {
  return std::any_of(bring_ups_.begin(), bring_ups_.end(), [path](const auto& each) {
    return !each->is_of_link() && each->path() == path;
  });
}

bool LinkCore::over() const noexcept {
  return !usable() || (peer_link_ && peer_link_->channels().all_ended() && waiting.empty());
}

bool LinkCore::carries_nothing() const noexcept {
  if (connector()) return false;
  if (state_ == LinkState::Proving || state_ == LinkState::Making ||
      state_ == LinkState::AwaitAttach || state_ == LinkState::Connecting)
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

void LinkCore::acknowledge() noexcept try {
  if (connection_ == 0) return;
  host_.plane().send(connection_, encode(conversation_.aside(identity_.id), Acknowledge{}));
  conversation_.acknowledged_now();
} catch (const std::exception&) {  // the next frame does it
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
  CHECK(&whole() == stage.link);
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

}  // namespace mesh::engine
