#include "engine/link/redial.h"

#include "engine/link/context.h"
#include "engine/link/link.h"
#include "src/base/check.h"
#include "src/base/log.h"
#include "src/base/random.h"
#include "src/base/timeouts.h"
#include "src/verbs/discovery.h"
#include "src/verbs/gid_choice.h"

#include <algorithm>
#include <utility>

namespace mesh::engine {

namespace {
std::string addresses_text(const PeerPort& port) {
  std::string text;
  for (const SocketAddress& address : port.addresses) {
    text += fmt::format("{}{}", text.empty() ? "" : ", ", address.text_with_port(port.port));
  }
  return text;
}
}  // namespace

// ---- The link's connection is lost.

bool Redial::begin(Errc reason, const std::string& text) {
  if (link_.state() != LinkState::Up || link_.failure() != Errc::Ok) return false;
  if (reason == Errc::Protocol || reason == Errc::Exhausted) return false;
  CHECK(link_.connection() == 0 && connection_ == 0);
  const bool connector = link_.connector();
  const std::uint64_t now_ns = link_.host().now_ns();
  // When TCP gives up, the connection has been silent for a while already.
  const std::uint64_t silent_ns = reason == Errc::Unreachable ? kSilenceToDeadHostMs * kNsPerMs : 0;
  const std::uint64_t patience_ns =
      std::max(link_.path_timeout_ns(), silent_ns + kStreamEndToRedialNs) - silent_ns;
  under_way_ = true;
  told_of_life_ = false;
  signs_.clear();
  moved_ns_ = now_ns;
  if (!link_.over()) look_for_life();
  rounds_ = 0;
  lost_ns_ = now_ns;
  next_ns_ = connector || link_.over() ? now_ns : now_ns + kLossToSummonNs;
  backoff_ns_ = kDialPauseMinNs;
  give_up_ns_ =
      now_ns + (connector || reason != Errc::PeerGone ? patience_ns : kStreamEndToRedialNs);
  if (link_.may_cause_lines()) {
    LOG_DETAIL("peer {}: control connection lost ({}), its paths stay in use; {}",
               link_.identity().peer_host, text,
               connector ? "dialing again" : "waiting for the peer to dial again");
  }
  link_.host().tend_soon();
  return true;
}

void Redial::try_other_way(const std::string& text) {
  if (under_way_ || link_.connection() == 0 || link_.state() != LinkState::Up ||
      link_.failure() != Errc::Ok)
    return;
  std::vector<SocketAddress> ways = other_ways();
  if (ways.empty()) return;
  link_.drop_connection();
  if (!begin(Errc::Timeout, text)) return;
  ways_ = std::move(ways);
  next_ns_ = lost_ns_;
}

void Redial::on_port_away(const verbs::Rail& rail) {
  if (link_.connection() == 0) return;
  const SocketAddress own = link_.host().plane().own_address(link_.connection());
  const bool ours = std::any_of(rail.gids.begin(), rail.gids.end(), [&own](const auto& each) {
    return verbs::address_of(each.gid).same_host(own);
  });
  if (ours)
    try_other_way(fmt::format("{}: its port {} is down", link_.connection_name(), rail.info.name));
}

// Returns true if a path that is up leads to this address, so that its cable works, or one that
// would be opened in place of a lost path.
bool Redial::carries(const SocketAddress& address) const {
  const auto paths = link_.peer_link().paths().all();
  return std::any_of(paths.begin(), paths.end(), [&](const Path& path) {
    const PathState state = path.health.state;
    const bool named = !path.ends.is_place() || (path.ends.by_proof && state == PathState::Up);
    if ((state != PathState::Up && state != PathState::Standby) || !named) return false;
    const WireRail& rail = link_.terms.peer_rails[path.ends.peer_rail];
    return SocketAddress::from_gid(rail.addresses[path.ends.peer_address].gid).same_host(address);
  });
}

// Returns the addresses to dial instead of the one in use: first those to which paths lead, and the
// one in use last. An acceptor dials no others than the first: HELLO may name any address, and the
// addresses of paths get queue pairs anyway.
std::vector<SocketAddress> Redial::other_ways() const {
  const SocketAddress used = link_.host().plane().peer_address(link_.connection());
  const bool connector = link_.connector();
  std::vector<SocketAddress> ways = connector ? link_.port.addresses : link_.terms.peer_addresses;
  const auto last = std::stable_partition(
      ways.begin(), ways.end(), [&used](const auto& each) { return !each.same_host(used); });
  if (last == ways.begin()) return {};
  const ProgressLoop::Guard guard(link_.context().loop);
  const auto unproven =
      std::stable_partition(ways.begin(), last, [this](const auto& each) { return carries(each); });
  if (!connector) ways.erase(unproven, ways.end());
  return ways;
}

// Returns true if the peer has answered or sent anything on a path that is up since the last call.
// Asks it for another sign. If a lost path waits for its fence, which needs frames, and no request
// has ended since, requests wait for that fence: then life alone leads nowhere, and they wait no
// longer than for a path.
bool Redial::look_for_life() {
  const ProgressLoop::Guard guard(link_.context().loop);
  PeerLink& peer_link = link_.peer_link();
  const std::vector<std::uint64_t> before =
      std::exchange(signs_, peer_link.paths().signs_of_peer());
  const std::uint64_t ended_before = std::exchange(ended_, peer_link.channels().ended_requests());
  const std::uint64_t now_ns = link_.host().now_ns();
  const bool waits_for_fence = peer_link.paths().fencing() &&
                               peer_link.channels().have_open_requests() && ended_ == ended_before;
  if (!waits_for_fence) moved_ns_ = now_ns;
  if (now_ns >= moved_ns_ + link_.path_timeout_ns()) return false;
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (before[i] != 0 && signs_[i] > before[i]) return true;
  }
  return false;
}

bool Redial::tend() {
  if (link_.state() == LinkState::Down) return false;
  if (link_.conversation().overfull()) {
    link_.end(
        Errc::Exhausted,
        fmt::format("it acknowledges nothing, over {} bytes of messages wait", kOutboxBytesMax));
    return false;
  }
  LinkHost& host = link_.host();
  if (answered_ns_ != 0 && host.now_ns() - answered_ns_ >= kRedialToAnswerNs && met_another()) {
    const std::string text = fmt::format("{}: says nothing", host.plane().peer_name(connection_));
    host.plane().close(connection_);
    answered_ns_ = 0;  // the pause is not to count as the peer's time
    on_lost(Errc::Timeout, text);
  }
  // A peer that stands still is waited for, but not for ever if nothing here depends on it: another
  // process may have its port.
  if (under_way_ && !link_.connector() && link_.over() &&
      host.now_ns() >= lost_ns_ + link_.path_timeout_ns()) {
    link_.end(Errc::PeerGone, "no way back to its control port");
    return false;
  }
  if (under_way_ && connection_ == 0 && host.now_ns() >= next_ns_) dial();
  return under_way_;
}

void Redial::dial() {
  CHECK(under_way_ && connection_ == 0 && link_.connection() == 0);
  const std::uint64_t now_ns = link_.host().now_ns();
  const std::uint64_t left_ns = give_up_ns_ > now_ns ? give_up_ns_ - now_ns : 0;
  std::span<const SocketAddress> addresses(link_.port.addresses);
  // Every second round tries the proven address alone, so that its refusal decides without delay.
  // The rounds between try all addresses, in case the way to the proven one is blocked. Where that
  // is suspected, they come first.
  const bool alone = (rounds_++ % 2 == 0) == ways_.empty();
  on_ways_ = !alone && !ways_.empty();
  if (on_ways_) addresses = ways_;
  if (alone && link_.port.proven) addresses = addresses.first(1);
  if (link_.connector()) ++attempt_;
  answered_ns_ = 0;
  set_connection(link_.host().plane().dial(
      {.addresses = addresses,
       .port = link_.port.port,
       .timeout_ns = std::clamp(left_ns, kRedialToAnswerMinNs, kRedialToAnswerNs)}));
}

void Redial::set_connection(ConnectionId id) noexcept {
  link_.index_connection(std::exchange(connection_, id), id);
}

// Returns true if the connection leads to another address than the one that has carried the link.
// Another machine may answer there, or our own.
bool Redial::met_another() const {
  return connection_ != 0 && link_.port.proven &&
         !link_.port.addresses.front().same_host(link_.host().plane().peer_address(connection_));
}

void Redial::stop() noexcept {
  under_way_ = false;
  ways_.clear();
  if (connection_ != 0) link_.host().plane().close(connection_);
  set_connection(0);
}

// ---- The connection that is being dialed.

// From here on there is no time-out if the proven address answers: a peer that stands still is
// waited for.
void Redial::on_dialed() {
  CHECK(connection_ != 0 && answered_ns_ == 0);
  ControlPlane& plane = link_.host().plane();
  answered_ns_ = link_.host().now_ns();
  give_up_ns_ = std::max(give_up_ns_, lost_ns_ + link_.path_timeout_ns());
  plane.identify(connection_);
  const FrameHeader header = link_.conversation().aside(link_.identity().id);
  plane.send(connection_,
             link_.connector() ? encode(header, Resume{claim()}) : encode(header, Summon{claim()}));
}

bool Redial::on_frame(const FrameHeader& header, std::span<const std::byte> bytes) {
  const ConnectionId id = connection_;
  Resumed resumed;
  Refuse refused;
  if (header.type == MessageType::Refuse && !met_another() && decode_into(bytes, &refused)) {
    link_.end(refused.reason, refused.text);
    return true;
  }
  const bool fits = link_.connector() && header.type == MessageType::Resumed &&
                    same_secret(header.link, link_.identity().id) && header.sequence == 0 &&
                    decode_into(bytes, &resumed);
  if (fits && link_.conversation().take(header) == Verdict::New) {
    go_on(id);
    return true;
  }
  on_lost(Errc::Protocol,
          fmt::format("{}: answers with a control message ({}) that is malformed or out of order",
                      link_.host().plane().peer_name(id), frame_name(header.type)));
  return false;
}

void Redial::on_lost(Errc reason, const std::string& text) {
  const std::uint64_t now_ns = link_.host().now_ns();
  const bool refused =
      answered_ns_ == 0 && reason == Errc::PeerGone && link_.port.proven && !on_ways_;
  set_connection(0);
  if (answered_ns_ != 0) give_up_ns_ += now_ns - answered_ns_;
  if (refused) {
    link_.end(Errc::PeerGone,
              fmt::format("nobody listens on its control port any more, see its log ({})", text));
  } else if (now_ns >= give_up_ns_ && (link_.over() || !look_for_life())) {
    link_.end(Errc::PeerGone,
              fmt::format("no way back to its control port in {} ms: check that host, and the "
                          "network of NCCL_SOCKET_IFNAME; tried {}; last: {}",
                          (now_ns - lost_ns_) / kNsPerMs, addresses_text(link_.port), text));
  } else {
    if (now_ns >= give_up_ns_) go_on_without(text);
    next_ns_ = now_ns + backoff_ns_;
    backoff_ns_ = std::min(2 * backoff_ns_, kTryPauseMaxNs);
  }
}

// The peer lives, so its messages go on, and dialing does too.
void Redial::go_on_without(const std::string& text) {
  const std::uint64_t now_ns = link_.host().now_ns();
  give_up_ns_ = now_ns + kSignToSignNs;
  if (std::exchange(told_of_life_, true)) return;
  LOG_WARN(
      "peer {}: no way back to its control port yet ({}); messages go on, but no lost path can be "
      "replaced meanwhile",
      link_.identity().peer_host, text);
}

// Makes the connection the link's, and repeats the frames that the peer has not handled.
void Redial::go_on(ConnectionId connection) {
  ControlPlane& plane = link_.host().plane();
  if (connection_ == connection) set_connection(0);
  const bool was_lost = under_way_;
  stop();
  link_.set_connection(connection);
  link_.note_address();
  const auto& frames = link_.conversation().unhandled();
  for (const Bytes& frame : frames) plane.send(connection, frame);
  ++link_.host().counts().resumes;
  if (!link_.may_cause_lines()) return;
  LOG_INFO("peer {}: control connection is back ({}) after {} ms, {} messages said again",
           link_.identity().peer_host, plane.peer_name(connection),
           was_lost ? (link_.host().now_ns() - lost_ns_) / kNsPerMs : 0, frames.size());
}

// ---- The peer has come by itself.

LinkClaim Redial::claim() const {
  const Id128& ours = link_.context().id;
  const Id128& theirs = link_.identity().peer_context;
  return {.connector_context = link_.connector() ? ours : theirs,
          .acceptor_context = link_.connector() ? theirs : ours,
          .attempt = attempt_};
}

bool Redial::resume_on(ConnectionId connection, const FrameHeader& header,
                       const LinkClaim& theirs) {
  CHECK(!link_.connector() && is_newer(theirs));
  if (header.sequence != 0 || link_.conversation().take(header) != Verdict::New) return false;
  ControlPlane& plane = link_.host().plane();
  // First what may throw: without memory the link keeps the connection or the redial that it has,
  // and the peer dials again.
  plane.identify(connection);
  note_source(plane.peer_address(connection));
  plane.send(connection, encode(link_.conversation().aside(header.link), Resumed{}));
  link_.drop_connection();  // if we have not noticed its loss yet
  attempt_ = theirs.attempt;
  link_.conversation().acknowledged_now();
  go_on(connection);
  return true;
}

// The peer is found where it came from.
void Redial::note_source(const SocketAddress& address) {
  std::vector<SocketAddress>& known = link_.port.addresses;
  const auto is_it = [&address](const SocketAddress& each) { return each.same_host(address); };
  if (std::any_of(known.begin(), known.end(), is_it)) return;
  if (known.size() == kControlAddressesMax) known.pop_back();
  known.insert(known.begin(), address);
}

// The way by which SUMMON came works, so it is dialed first. A link whose BYE was lost with the
// connection is over; the peer hears that with its next SUMMON.
void Redial::on_summon(const LinkClaim& theirs, ConnectionId caller) {
  CHECK(link_.connector());  // only the connector dials a link
  if (link_.state() == LinkState::ByeSent && theirs.attempt >= attempt_)
    return link_.end(Errc::PeerClosed, "the peer has lost the connection that BYE went over");
  const SocketAddress from = link_.host().plane().peer_address(caller);
  const std::vector<SocketAddress>& named = link_.port.addresses;
  const auto known = std::find_if(named.begin(), named.end(), [&from](const SocketAddress& each) {
    return each.same_host(from);
  });
  if (!under_way_ && link_.state() == LinkState::Up && theirs.attempt >= attempt_) {
    link_.drop_connection();
    begin(Errc::Timeout, "the peer has lost it");
  }
  if (!under_way_) return;
  next_ns_ = 0;
  if (known == named.end() || known == named.begin()) return;
  ways_ = {*known};
  rounds_ = 0;
  if (connection_ == 0 || answered_ns_ != 0 || on_ways_) return;
  link_.host().plane().close(connection_);  // it dials the first address, and nobody has answered
  set_connection(0);
}

}  // namespace mesh::engine
