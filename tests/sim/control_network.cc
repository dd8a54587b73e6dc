#include "tests/sim/control_network.h"

#include "src/base/timeouts.h"
#include "tests/sim/other_jobs.h"
#include "tests/sim/scenario.h"

namespace mesh::sim {
namespace {
constexpr std::uint64_t kSilenceNs = kSilenceToDeadHostMs * kNsPerMs;
constexpr std::uint64_t kSlowFrames = 16;    // one in so many takes ControlTiming::pause_ns longer
constexpr std::uint64_t kControlStream = 3;  // of Random
constexpr int kEventsPerPass = 64;
constexpr std::uint64_t kSentAgainNs = 5 * kNsPerMs;  // TCP sends again what the cable has lost

struct LossText {
  Errc reason;
  const char* text;
};
LossText loss_of(ControlEnd::News news) {
  switch (news) {
    case ControlEnd::News::Reset: return {Errc::PeerGone, "Connection reset by peer"};
    case ControlEnd::News::Refused: return {Errc::PeerGone, "Connection refused"};
    case ControlEnd::News::TimedOut: return {Errc::Unreachable, "Connection timed out"};
    case ControlEnd::News::Dialed:
    case ControlEnd::News::Frame:
    case ControlEnd::News::Next:
    case ControlEnd::News::Closed: break;
  }
  return {Errc::PeerGone, "closed the connection"};
}
}  // namespace

ControlNetwork::ControlNetwork(const Clock& clock, const Scenario& scenario, Trace& trace)
    : clock_(clock), scenario_(scenario), random_(scenario.seed, kControlStream), trace_(trace) {}
ControlNetwork::~ControlNetwork() = default;

Result<std::unique_ptr<engine::ControlPlane>> ControlNetwork::open(
    const engine::ControlPlaneOptions&, engine::ControlEvents& events) {
  auto plane = std::make_unique<SimPlane>(*this, next_process_, events);
  planes_[next_process_] = plane.get();
  return std::unique_ptr<engine::ControlPlane>(std::move(plane));
}

void ControlNetwork::forget(SimPlane& plane) { planes_.erase(plane.process_); }

SimPlane* ControlNetwork::plane_of(std::size_t process) const {
  const auto found = planes_.find(process);
  return found == planes_.end() ? nullptr : found->second;
}

std::uint16_t ControlNetwork::port_of(std::size_t process) const {
  return static_cast<std::uint16_t>(SimPlane::kPort + scenario_.sibling_number(process));
}

// Returns kNoHost if no process of the host has that port.
std::size_t ControlNetwork::process_at(std::size_t host, std::uint16_t port) const {
  for (const auto& [process, plane] : planes_)
    if (plane->host_ == host && plane->port_ == port) return process;
  return kNoHost;
}

// Returns when an event that is sent now arrives; it overtakes none on its connection.
std::uint64_t ControlNetwork::arrival_ns(const ControlEnd& to) {
  std::uint64_t at_ns =
      clock_.now_ns() + random_.between(timing_.delay_min_ns, timing_.delay_max_ns);
  if (timing_.pause_ns != 0 && random_.one_in(kSlowFrames))
    at_ns += random_.below(timing_.pause_ns);
  at_ns = std::max(at_ns, silent_until_ns(to.plane->host_, to.peer_host));
  return to.news.empty() ? at_ns : std::max(at_ns, to.news.back().due_ns);
}

void ControlNetwork::tell(ControlEnd& end, ControlEnd::News news, engine::Bytes frame) {
  const std::uint64_t due_ns = arrival_ns(end);
  end.news.push_back({.due_ns = due_ns, .news = news, .frame = std::move(frame)});
}

// Reports a CLOSE that is sent for the first time. A frame repeated after a loss has an old number.
void ControlNetwork::see(const ControlEnd& from, const engine::Bytes& frame) {
  const Result<engine::FrameHeader> header =
      engine::decode_header(frame.data(), frame.size(), nullptr);
  std::uint64_t& last = seen_[{header->link, from.dials}];
  if (header->sequence <= last) return;
  last = header->sequence;
  CloseSaid said{.link = header->link, .by_connector = from.dials, .close = {}};
  if (engine::decode_into(std::span(frame).subspan(engine::kFrameHeaderBytes), &said.close))
    on_close_(said);
}

// Replaces all events that were still to come by this one.
void ControlNetwork::tell_later(ControlEnd& end, ControlEnd::News news, std::uint64_t after_ns) {
  end.news.clear();
  end.broken = true;
  end.news.push_back({.due_ns = clock_.now_ns() + after_ns, .news = news, .frame = {}});
}

void ControlNetwork::cut(ControlEnd& end) {
  if (end.peer != nullptr) end.peer->peer = nullptr;
  end.peer = nullptr;
}

void ControlNetwork::settle(ControlEnd& end) {
  end.settled = true;
  if (end.peer != nullptr) end.peer->settled = true;
}

std::uint32_t ControlNetwork::reset(std::size_t host, std::size_t other) {
  return strike(host, other, Strike::Reset);
}

std::uint32_t ControlNetwork::half_open(std::size_t host, std::size_t other) {
  return strike(host, other, Strike::HalfOpen);
}

std::uint32_t ControlNetwork::silence(std::size_t host, std::size_t other, std::uint64_t until_ns) {
  std::uint64_t& silent_ns = silent_until_ns_[std::minmax(host, other)];
  silent_ns = std::max(silent_ns, until_ns);
  if (until_ns >= clock_.now_ns() + kSilenceNs) return strike(host, other, Strike::Silence);
  for (const std::size_t side : {host, other}) {
    for (const auto& [process, plane] : planes_) {
      if (plane->host_ != side) continue;
      for (const auto& [id, end] : plane->ends_) {
        if (end->peer_host != (side == host ? other : host)) continue;
        for (ControlEnd::Event& event : end->news) event.due_ns = std::max(event.due_ns, until_ns);
      }
    }
  }
  trace_.note("control late", {host, other});
  return 0;
}

std::uint64_t ControlNetwork::silent_until_ns(std::size_t host, std::size_t other) const {
  const auto found = silent_until_ns_.find(std::minmax(host, other));
  return found == silent_until_ns_.end() ? 0 : found->second;
}

std::uint32_t ControlNetwork::strike(std::size_t host, std::size_t other, Strike how) {
  std::uint32_t hit = 0, young = 0;
  std::vector<ControlEnd*> between;
  bool there = false;
  for (const auto& [process, plane] : planes_) {
    if (plane->host_ != host) continue;
    there = true;
    for (const auto& [id, end] : plane->ends_)
      if (end->peer_host == other && !end->broken && end->up) between.push_back(end.get());
  }
  if (!there) return 0;
  for (ControlEnd* const end : between) {
    ControlEnd* const peer = end->peer;
    cut(*end);
    if (how == Strike::Reset) {
      tell_later(*end, ControlEnd::News::Reset, random_.below(2 * timing_.delay_max_ns));
    } else {
      tell_later(*end, ControlEnd::News::TimedOut, kSilenceNs);
      end->broken = false;  // this end still takes the connection for alive
      end->silent = true;
    }
    if (peer != nullptr && how == Strike::Silence) {
      tell_later(*peer, ControlEnd::News::TimedOut, kSilenceNs);
      peer->broken = false;
      peer->silent = true;
    } else if (peer != nullptr) {
      tell_later(*peer, ControlEnd::News::Reset, random_.below(2 * timing_.delay_max_ns));
    }
    ++hit;
    young += end->settled ? 0 : 1;
  }
  constexpr const char* kNames[] = {"control reset", "control half open", "control silent"};
  trace_.note(kNames[static_cast<std::size_t>(how)], {host, other, hit});
  return young;
}

void ControlNetwork::lose_process(std::size_t process, End end) {
  lost_[process] = end;
  SimPlane* const plane = plane_of(process);
  if (plane == nullptr) return;
  for (const auto& [id, ours] : plane->ends_) {
    ControlEnd* const peer = ours->peer;
    cut(*ours);
    ours->news.clear();
    if (peer == nullptr) continue;
    if (end == End::Killed) {
      tell(*peer, ControlEnd::News::Closed, {});  // frames sent before still arrive
    } else {
      tell_later(*peer, ControlEnd::News::TimedOut, kSilenceNs + random_.below(kSilenceNs / 4));
      peer->broken = false;
      peer->silent = true;
    }
  }
  trace_.note("host lost", {process, static_cast<std::uint64_t>(end)});
}

std::uint64_t ControlNetwork::next_due_ns() const {
  std::uint64_t due_ns = UINT64_MAX;
  for (const auto& [process, plane] : planes_) {
    if (lost_.contains(process)) continue;
    for (const auto& [id, end] : plane->ends_)
      due_ns = std::min(due_ns,
                        end->news.empty() ? end->first_frame_until_ns : end->news.front().due_ns);
  }
  return due_ns;
}

std::size_t ControlNetwork::connections(std::size_t process) const {
  const SimPlane* const plane = plane_of(process);
  return plane == nullptr ? 0 : plane->ends_.size();
}

// Dials the first address that is left. Without cables a host has one address.
void ControlNetwork::try_candidate(ControlEnd& end) {
  const SocketAddress to = end.candidates.front();
  end.candidates.pop_front();
  if (ways_ == nullptr) {
    end.peer_host = static_cast<std::size_t>(to.bytes[2]) << 8 | to.bytes[3];
  } else {
    end.way = ways_->to(end.plane->host_, to);
    end.peer_host = end.way ? static_cast<std::size_t>(end.way->far.host) : kNoHost;
  }
  if (end.peer_host == kOtherJobHost)
    trace_.violate(fmt::format("host {} dials a host of another job", end.plane->host_));
  const bool last = end.candidates.empty();
  const std::uint64_t patience_ns =
      last ? end.timeout_ns : std::min(end.timeout_ns, kFirstDialToNextNs);
  end.peer_process = process_at(end.peer_host, end.port);
  const auto lost = lost_.find(end.peer_process);
  const bool silent = (lost != lost_.end() && lost->second == End::Unplugged) ||
                      (ways_ != nullptr && !end.way) ||
                      clock_.now_ns() < silent_until_ns(end.plane->host_, end.peer_host);
  if (silent) {
    tell_later(end, last ? ControlEnd::News::TimedOut : ControlEnd::News::Next, patience_ns);
  } else if (end.peer_process == kNoHost || lost != lost_.end()) {
    tell_later(end, last ? ControlEnd::News::Refused : ControlEnd::News::Next,
               random_.below(timing_.delay_max_ns));
  } else {
    end.dialed_until_ns = clock_.now_ns() + patience_ns;
    tell(end, ControlEnd::News::Dialed, {});
  }
  end.broken &= last;
}

// Returns true if the end's next event has to cross a cable that is cut.
bool ControlNetwork::waits_for_way(ControlEnd& end) {
  ControlEnd::Event& next = end.news.front();
  const bool crosses = next.news == ControlEnd::News::Frame ||
                       next.news == ControlEnd::News::Closed ||
                       next.news == ControlEnd::News::Dialed;
  if (ways_ == nullptr || !crosses || !end.way || ways_->works(*end.way)) {
    end.stuck_since_ns = 0;
    return false;
  }
  const std::uint64_t now_ns = clock_.now_ns();
  if (next.news == ControlEnd::News::Dialed) {
    const bool last = end.candidates.empty();
    tell_later(end, last ? ControlEnd::News::TimedOut : ControlEnd::News::Next,
               std::max(end.dialed_until_ns, now_ns) - now_ns);
    end.broken &= last;
    return true;
  }
  if (end.stuck_since_ns == 0) end.stuck_since_ns = now_ns;
  next.due_ns = now_ns + kSentAgainNs;
  if (now_ns < end.stuck_since_ns + kSilenceNs) return true;
  if (end.peer != nullptr) tell_later(*end.peer, ControlEnd::News::TimedOut, 0);
  tell_later(end, ControlEnd::News::TimedOut, 0);
  return true;
}

// ---- One host's plane.

SimPlane::SimPlane(ControlNetwork& network, std::size_t process, engine::ControlEvents& events)
    : network_(network),
      process_(process),
      host_(network.scenario_.processes[process]),
      port_(network.port_of(process)),
      events_(events) {
  own = network.ways_ == nullptr ? std::vector{address_of(host_)}
                                 : network.ways_->addresses_of(host_);
}

SimPlane::~SimPlane() {
  while (!ends_.empty()) close(ends_.begin()->first);
  network_.forget(*this);
}

SocketAddress SimPlane::address_of(std::size_t host) {
  SocketAddress address;
  address.family = AF_INET;
  address.bytes = {10, 255, static_cast<std::uint8_t>(host >> 8),
                   static_cast<std::uint8_t>(host & 0xff)};
  return address;
}

ControlEnd* SimPlane::find(engine::ConnectionId id) const {
  const auto found = ends_.find(id);
  return found == ends_.end() ? nullptr : found->second.get();
}

ControlEnd& SimPlane::add() {
  auto end = std::make_unique<ControlEnd>();
  end->plane = this;
  end->id = next++;
  return *ends_.emplace(end->id, std::move(end)).first->second;
}

void SimPlane::erase(engine::ConnectionId id) {
  ControlEnd* const end = find(id);
  if (end == nullptr) return;
  network_.cut(*end);
  ends_.erase(id);
}

engine::ConnectionId SimPlane::dial(const engine::DialOrder& order) {
  ControlEnd& end = add();
  end.known = end.dials = true;
  end.candidates.assign(order.addresses.begin(), order.addresses.end());
  end.timeout_ns = order.timeout_ns;
  end.port = order.port;
  network_.try_candidate(end);
  network_.trace_.note("control dial", {process_, end.peer_host, end.id});
  return end.id;
}

bool SimPlane::send(engine::ConnectionId id, engine::Bytes frame) {
  ControlEnd* const end = find(id);
  if (end == nullptr || end->broken) return false;
  const engine::MessageType type = engine::decode_header(frame.data(), frame.size(), nullptr)->type;
  if (type == engine::MessageType::Close) network_.see(*end, frame);
  const bool chains = type == engine::MessageType::Chain;
  const bool of_relays = chains || type == engine::MessageType::AskPeers;
  if (type == engine::MessageType::Resume || type == engine::MessageType::Summon || of_relays)
    network_.settle(*end);
  if (of_relays && (end->peer_process == process_ || (chains && end->peer_host == host_)))
    network_.trace_.violate(fmt::format("host {} asks itself to carry", host_));
  if (end->peer != nullptr) {
    network_.tell(*end->peer, ControlEnd::News::Frame, std::move(frame));
  } else if (!end->up && !end->silent) {
    end->unsent.push_back(std::move(frame));
  }
  return true;
}

void SimPlane::identify(engine::ConnectionId id) {
  ControlEnd* const end = find(id);
  if (end == nullptr) return;
  end->known = true;
  end->first_frame_until_ns = UINT64_MAX;
}

void SimPlane::close(engine::ConnectionId id) {
  ControlEnd* const end = find(id);
  if (end == nullptr) return;
  if (end->peer != nullptr) network_.tell(*end->peer, ControlEnd::News::Closed, {});
  erase(id);
}

std::string SimPlane::peer_name(engine::ConnectionId id) const {
  const ControlEnd* const end = find(id);
  if (end == nullptr) return "unknown";
  const bool known = end->peer_process != kNoHost;
  return fmt::format("{}:{}", peer_address(id).text(),
                     known ? network_.port_of(end->peer_process) : end->port);
}

SocketAddress SimPlane::peer_address(engine::ConnectionId id) const {
  const ControlEnd* const end = find(id);
  if (end == nullptr) return {};
  return end->way ? network_.ways_->address_of(end->way->far) : address_of(end->peer_host);
}

SocketAddress SimPlane::own_address(engine::ConnectionId id) const {
  const ControlEnd* const end = find(id);
  if (end == nullptr) return {};
  return end->way ? network_.ways_->address_of(end->way->near) : address_of(host_);
}

void SimPlane::on_frame(engine::ConnectionId id, const engine::Bytes& frame) {
  std::uint16_t version = 0;
  const Result<engine::FrameHeader> header =
      engine::decode_header(frame.data(), frame.size(), &version);
  if (!header.ok()) {
    network_.trace_.violate(
        fmt::format("host {} was sent a malformed frame of {} bytes", host_, frame.size()));
    return;
  }
  network_.trace_.note("control frame",
                       {process_, id, static_cast<std::uint64_t>(header->type), frame.size()});
  find(id)->known = true;
  if (header->type == engine::MessageType::Ready) network_.settle(*find(id));
  if (!events_.on_frame(id, *header, std::span(frame).subspan(engine::kFrameHeaderBytes)))
    close(id);
}

// Hands the end's next event to the engine, which may close any connection meanwhile.
bool SimPlane::take(ControlEnd& end) {
  ControlEnd::Event event = std::move(end.news.front());
  end.news.pop_front();
  const engine::ConnectionId id = end.id;
  if (event.news == ControlEnd::News::Frame) {
    on_frame(id, event.frame);
    return true;
  }
  network_.trace_.note("control news", {process_, id, static_cast<std::uint64_t>(event.news)});
  if (event.news == ControlEnd::News::Next) {
    network_.try_candidate(end);
    return true;
  }
  if (event.news == ControlEnd::News::Dialed) {
    SimPlane* const plane = network_.plane_of(end.peer_process);
    if (plane == nullptr || network_.lost_.contains(end.peer_process)) {
      network_.tell_later(end, ControlEnd::News::Refused, 0);
      return true;
    }
    ControlEnd& other = plane->add();
    other.peer_host = host_;
    other.peer_process = process_;
    if (end.way) other.way = end.way->reversed();
    other.first_frame_until_ns = network_.clock_.now_ns() + kAcceptToFirstFrameNs;
    other.up = end.up = true;
    other.peer = &end;
    end.peer = &other;
    other.settled = end.settled;
    for (engine::Bytes& frame : std::exchange(end.unsent, {}))
      network_.tell(other, ControlEnd::News::Frame, std::move(frame));
    events_.on_dialed(id);
    return true;
  }
  const LossText loss = loss_of(event.news);
  const std::string text = fmt::format("{}: {}", peer_name(id), loss.text);
  end.broken = true;
  network_.cut(end);
  if (end.known) events_.on_lost(id, loss.reason, text);
  erase(id);
  return true;
}

bool SimPlane::poll_once() {
  const std::uint64_t now_ns = network_.clock_.now_ns();
  std::vector<engine::ConnectionId> ready;
  for (const auto& [id, end] : ends_) {
    if (!end->news.empty() && end->news.front().due_ns <= now_ns && ready.size() < kEventsPerPass)
      ready.push_back(id);
    if (end->first_frame_until_ns <= now_ns && end->news.empty())
      network_.tell_later(*end, ControlEnd::News::TimedOut, 0);
  }
  bool active = false;
  for (const int fd : watched_) events_.on_readable(fd);
  for (const engine::ConnectionId id : ready) {
    ControlEnd* const end = find(id);
    if (end != nullptr && !end->news.empty() && !network_.waits_for_way(*end)) active |= take(*end);
  }
  return active;
}

}  // namespace mesh::sim
