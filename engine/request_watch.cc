#include "engine/request_watch.h"

#include "engine/data/path_text.h"
#include "src/base/log.h"
#include "src/base/timeouts.h"

#include <utility>

namespace mesh::engine {

namespace {

template <typename Visitor>
void for_each_channel(const Link& link, Visitor&& visit) {
  if (!link.has_peer_link() || link.state() == LinkState::Down) return;
  link.peer_link().channels().for_each([&visit](Channel& channel) {
    if (!channel.closing.closed_here) visit(channel);
  });
}

struct Named {
  std::string text;
  std::uint64_t bytes = 0;
};

Named name_of_receive(const RecvChannel& channel) {
  const std::uint64_t sequence = channel.awaited(channel.oldest.sequence());
  const Request& waits = channel.request(sequence);
  std::string text = fmt::format("receive {}", sequence);
  // Each tag of a group has a sender of its own.
  if (is_of_group(waits.state.load(std::memory_order_relaxed)))
    text += fmt::format(" with tag {}", waits.tag);
  return {.text = std::move(text), .bytes = waits.bytes};
}

// Names the channel's oldest open request. The caller holds the progress lock, so the slot is not
// used again meanwhile.
Named name_of(Channel& channel) {
  if (channel.side == Side::Receive) return name_of_receive(RecvChannel::of(channel));
  const std::uint64_t sequence = channel.oldest.sequence();
  const Request& open = channel.open_request(sequence);
  if (!Channel::is_of_queue(sequence))
    return {.text = fmt::format("send {}", sequence), .bytes = open.bytes};
  return {.text = fmt::format("send {} of tag {}", Channel::number_in_queue(sequence), open.tag),
          .bytes = open.bytes};
}

void see_requests(const Link& link, std::uint64_t now_ns) {
  for_each_channel(link, [&](Channel& channel) { channel.see_open(now_ns); });
}

std::uint32_t paths_in(PathState state, const PeerLink& link) {
  std::uint32_t count = 0;
  for (const Path& path : link.paths().all()) count += path.health.state == state ? 1 : 0;
  return count;
}
std::uint32_t paths_up(const PeerLink& link) { return paths_in(PathState::Up, link); }

// Returns the best path that has a cause for not being up, or null if none has.
const Path* first_lost(const PeerLink& link) {
  for (const Path& path : link.paths().all()) {
    if (!path.health.last_cause.empty()) return &path;
  }
  return nullptr;
}

// Names the hosts on the way, if the reason of the wait names no path of its own.
std::string route_of(const Waiting& waiting, const PeerLink& link) {
  if (waiting.path != nullptr || waiting.reason == WaitReason::Turn) return {};
  for (const Path& path : link.paths().all()) {
    const bool alone = path.health.state == PathState::Up || paths_up(link) == 0;
    if (alone && !path.over.empty()) return fmt::format(" (over {})", hosts_named(path.over));
  }
  return {};
}

// Until a connector has stopped its queue pairs of a lost path, old credits may land on new ones.
bool fences(const Link& link) {
  if (link.peer_link().paths().all_up()) return false;
  const ProgressLoop::Guard guard(link.peer_link().loop());
  return link.peer_link().paths().fencing();
}

// Writes the credits of late receives again. Only an acceptor has credits to write.
void rewrite_late(Link& link, std::uint64_t now_ns) {
  if (link.connector() || link.state() != LinkState::Up) return;
  bool late = false;
  const bool again = link.has_peer_link() && fences(link);
  for_each_channel(link, [&](Channel& channel) {
    if (!channel.oldest.becomes_late(now_ns, again)) return;
    const ProgressLoop::Guard guard(channel.loop);
    if (paths_up(channel.link) == 0) return;  // the credits are written again when a path is up
    RecvChannel::of(channel).ask_rewrite();
    late = true;
  });
  if (late) link.repair().rewrite_soon();
}

// Notes what only the progress lock's holder may read: whether the loop was turned since the last
// look, and the states of the paths.
void see_loop(Context& context, std::uint64_t elapsed_ns) {
  const ProgressLoop::Guard guard(context.loop);
  const std::uint64_t turns = context.loop.turns();
  context.turned = std::exchange(context.turns_seen, turns) != turns;
  for (const auto& link : context.links) {
    if (link->state() != LinkState::Up || !link->has_peer_link()) continue;
    if (link->peer_link().reach().unreachable() || link->peer_link().reach().lazy())
      continue;  // it has no path
    const std::uint32_t up = paths_up(link->peer_link());
    if (up + paths_in(PathState::Standby, link->peer_link()) < link->peer_link().paths().count())
      link->watched.degraded_ns += elapsed_ns;
    if (up == 0) link->watched.without_path_ns += elapsed_ns;
  }
}

}  // namespace

std::optional<Waiting> RequestWatch::waiting_of(Channel& channel, bool turned) {
  const std::uint64_t sequence = channel.oldest.sequence();
  const OpenRequest now = channel.oldest_open(sequence);
  if (!channel.oldest.open() || !now.open || now.sequence != sequence) return std::nullopt;
  if (paths_up(channel.link) == 0)
    return Waiting{.reason = WaitReason::Path, .path = first_lost(channel.link)};
  const Waiting waiting = channel.side == Side::Send
                              ? static_cast<SendChannel&>(channel).waiting(sequence)
                              : static_cast<RecvChannel&>(channel).waiting(sequence);
  // Credits and tags were read just now from memory that the peer writes. Completions and
  // announcements stay unseen until the loop is turned.
  const bool read_now = waiting.reason == WaitReason::Credit || waiting.reason == WaitReason::Tag;
  return turned || read_now ? waiting : Waiting{.reason = WaitReason::Turn};
}

void RequestWatch::look(const std::vector<std::unique_ptr<Context>>& contexts,
                        std::uint64_t now_ns) {
  if (now_ns - last_look_ns_ < kRequestLookToNextNs) return;
  const std::uint64_t elapsed_ns = now_ns - std::exchange(last_look_ns_, now_ns);
  // This process itself stood still, so nothing is logged before the next look.
  const bool paused = elapsed_ns > kLookToPausedNs;
  for (const auto& context : contexts) {
    if (context->links.empty()) continue;
    for (const auto& link : context->links) {
      see_requests(*link, now_ns);
      if (rewrites_late_) rewrite_late(*link, now_ns);
    }
    if (!armed_) continue;
    see_loop(*context, paused ? 0 : elapsed_ns);
    if (bar_ns_ == 0 || paused) continue;
    for (const auto& link : context->links) tell(*link, now_ns);
  }
}

void RequestWatch::tell(Link& link, std::uint64_t now_ns) const {
  Channel* worst = nullptr;
  std::uint64_t waiting_channels = 0;
  for_each_channel(link, [&](Channel& channel) {
    const std::uint64_t age_ns = channel.oldest.age_ns(now_ns);
    if (age_ns >= bar_ns_) ++waiting_channels;
    if (worst == nullptr || age_ns > worst->oldest.age_ns(now_ns)) worst = &channel;
  });
  const std::uint64_t age_ns = worst == nullptr ? 0 : worst->oldest.age_ns(now_ns);
  std::optional<Waiting> waiting;
  Named name;
  std::string route;
  if (age_ns >= bar_ns_) {
    const ProgressLoop::Guard guard(worst->loop);
    waiting = waiting_of(*worst, link.context().turned);
    if (!waiting) return;  // it has ended; the next look reports that
    name = name_of(*worst);
    route = route_of(*waiting, link.peer_link());
  }
  const LinkWait::Say say = link.watched.wait.look(
      {.age_ns = age_ns, .patient = waiting && is_patient(waiting->reason)}, bar_ns_);
  const LogLevel level = link.watched.wait.is_warning() ? LogLevel::Warn : LogLevel::Info;
  if (say == LinkWait::Say::GoesOn && link.failure() == Errc::Ok) {
    MESH_LOG(level, "peer {}: {} it goes on after {} s", link.identity().peer_host,
             link.connector() ? "sending to" : "receiving from",
             link.watched.wait.longest_ns() / kNsPerSecond);
  }
  if (say != LinkWait::Say::Waits) return;
  const std::string begin = fmt::format(
      "peer {}: {} of channel {} ({} bytes) is open for {} s and waits for ",
      link.identity().peer_host, name.text, worst->index, name.bytes, age_ns / kNsPerSecond);
  // A stripe of several work requests is announced by the last one: before, nothing tells of it.
  const bool of_long_stripes = name.bytes > link.peer_link().policy().wr_bytes;
  if (waiting->reason == WaitReason::Data && waiting->landed == 0 && of_long_stripes)
    route = ", or its first stripe is under way" + route;
  if (waiting_channels > 1) route += fmt::format("; {} channels wait", waiting_channels);
  MESH_LOG(level, "{}{}{}", begin, waiting_text(*waiting, begin.size() + route.size()), route);
}

namespace {
std::string words_of(const Waiting& waiting, const std::string& path_name) {
  const std::string path = path_name.empty() ? "" : " on " + path_name;
  switch (waiting.reason) {
    case WaitReason::Credit: return "the peer: it has posted no receive for it";
    case WaitReason::Tag: return "the peer: its next receive has another tag";
    case WaitReason::Data:
      return waiting.landed == 0
                 ? "the peer: it has sent nothing for it"
                 : fmt::format("the peer: {} stripes of it have come, not all", waiting.landed);
    case WaitReason::Turn: return "the program: nobody has asked about it for a second";
    case WaitReason::Completion:
      return fmt::format("the network: it is posted{} and not acknowledged", path);
    case WaitReason::Queue: return fmt::format("room in a send queue{}", path);
    case WaitReason::Window:
      return fmt::format("the peer: it has not taken what was announced{}", path);
    case WaitReason::Inflight:
      return fmt::format("the network: the bytes in flight{} are not acknowledged", path);
    case WaitReason::QueuePairs: return "queue pairs of the link, which are being made";
    case WaitReason::Path: {
      const bool told = waiting.path != nullptr && !waiting.path->health.last_cause.empty();
      return told ? fmt::format("a path: none is up; {}: {}", path_name,
                                waiting.path->health.last_cause)
                  : "a path: none is up";
    }
  }
  return "an unknown reason";
}
}  // namespace

std::string waiting_text(const Waiting& waiting, std::size_t bytes_beside) {
  if (waiting.path == nullptr) return words_of(waiting, {});
  const std::size_t words = words_of(waiting, {}).size();
  return words_of(waiting, path_text(*waiting.path, bytes_beside + words + 4));  // " on "
}

}  // namespace mesh::engine
