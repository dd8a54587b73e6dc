#include "engine/silence_watch.h"

#include "engine/data/path.h"
#include "engine/data/queue_pair.h"
#include "engine/link/link.h"
#include "src/base/timeouts.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace mesh::engine {

namespace {

bool is_watched(const Link& link) {
  return link.state() == LinkState::Up && link.has_peer_link() && link.failure() == Errc::Ok;
}

// A completion on any path to the peer since a silence began shows that the network and the peer's
// host go on: it is of another path, because the silent one has had none.
bool move_others(std::span<Link* const> links, std::uint64_t silent_ns) {
  return std::any_of(links.begin(), links.end(), [silent_ns](const Link* link) {
    const std::vector<PathSilence>& silences = link->watched.silences;
    return std::any_of(silences.begin(), silences.end(), [silent_ns](const PathSilence& silence) {
      return silence.moved_within(silent_ns);
    });
  });
}

// Asks the peer for a sign on each path that owes none: those may only be idle because all that is
// to be done waits for a silent path.
void ask_for_signs(std::span<Link* const> links) {
  for (const Link* const link : links) {
    const ProgressLoop::Guard guard(link->context().loop);
    for (const Path& path : link->peer_link().paths().all()) {
      if (path.health.state == PathState::Up && !path.owes_completion())
        path.queue_pairs[0]->ask_answer();
    }
  }
}

// Returns false if nobody has turned the loop since the last look: then completions may lie in
// their queues, and nobody waits for them.
bool was_turned(Context& context) {
  const ProgressLoop::Guard guard(context.loop);
  const std::uint64_t turns = context.loop.turns();
  return std::exchange(context.silence_turns, turns) != turns;
}

}  // namespace

void SilenceWatch::look(const std::vector<std::unique_ptr<Context>>& contexts,
                        std::uint64_t now_ns) {
  if (now_ns - last_look_ns_ < kSilenceLookToNextNs) return;
  const std::uint64_t elapsed_ns = now_ns - std::exchange(last_look_ns_, now_ns);
  for (const auto& context : contexts) {
    carried_bytes_.assign(context->loop.devices.size(), 0);
    const std::uint64_t counted_ns = was_turned(*context) ? elapsed_ns : 0;
    bool silent = false;
    for (const auto& link : context->links) silent |= see(*link, counted_ns);
    if (silent) judge(*context);
    context->loop.flusher->give_up_silent(
        {.elapsed_ns = std::min(elapsed_ns, kSilenceLookCountsMaxNs),
         .bound_ns = flush_bound_ns()});
  }
}

// Returns true if a path of the link is silent.
bool SilenceWatch::see(Link& link, std::uint64_t elapsed_ns) {
  if (!is_watched(link) || link.peer_link().paths().count() == 0) return false;
  PathSet& paths = link.peer_link().paths();
  std::vector<PathSilence>& silences = link.watched.silences;
  silences.resize(paths.count());
  bool silent = false;
  const ProgressLoop::Guard guard(link.context().loop);
  for (const Path& path : paths.all()) {
    PathSilence& silence = silences[path.index];
    if (path.health.state != PathState::Up) {
      silence = {};
      continue;
    }
    if (silence.owes() && elapsed_ns != 0) path.device->drain(path.queue_pairs);
    silence.see(path.look(), elapsed_ns);
    silent |= silence.silent_ns() != 0 && !path.ends.relayed;
    carried_bytes_[path.rail] += path.inflight_bytes();
  }
  return silent;
}

void SilenceWatch::judge(const Context& context) {
  std::map<std::string_view, std::vector<Link*>> by_peer;
  for (const auto& link : context.links) {
    if (is_watched(*link)) by_peer[link->identity().peer_host].push_back(link.get());
  }
  for (const auto& [peer, links] : by_peer) judge_peer(links);
}

// Judges the paths of all links to one peer.
void SilenceWatch::judge_peer(std::span<Link* const> links) {
  bool silent = false;
  for (Link* const link : links) {
    for (Path& path : link->peer_link().paths().all()) {
      const std::uint64_t silent_ns = link->watched.silences[path.index].silent_ns();
      if (silent_ns == 0 || path.ends.relayed) continue;
      const Others others = move_others(links, silent_ns) ? Others::Move : Others::Silent;
      if (silent_ns >= silence_bound_ns(terms_of(*link, path), others)) {
        lose(*link, path, silent_ns);
      } else {
        silent = true;
      }
    }
  }
  if (!silent) return;
  ask_for_signs(links);
  host_.tend_at(host_.now_ns() + kSilenceLookToNextNs);
}

SilenceTerms SilenceWatch::terms_of(const Link& link, const Path& path) const {
  const Settings settings = link.settings();
  const std::uint64_t bits = carried_bytes_[path.rail] * 8;
  return {.ack_ns = ack_bound_ns(settings.timeout, settings.retry_count),
          .carry_ns = path.speed_mbps == 0 ? 0 : bits * 1000 / path.speed_mbps,
          .path_timeout_ns = link.path_timeout_ns(),
          .acknowledges_alone = host_.options().provider->acknowledges_alone()};
}

// A flush reads over one card, and no other one could show that the network goes on.
std::uint64_t SilenceWatch::flush_bound_ns() const {
  const Settings& settings = host_.options().settings;
  return silence_bound_ns(
      {.ack_ns = ack_bound_ns(settings.timeout, settings.retry_count),
       .path_timeout_ns = static_cast<std::uint64_t>(settings.path_timeout_s) * kNsPerSecond},
      Others::Silent);
}

void SilenceWatch::lose(const Link& link, Path& path, std::uint64_t silent_ns) {
  const ProgressLoop::Guard guard(link.context().loop);
  path.device->drain(path.queue_pairs);
  if (path.health.state != PathState::Up || !link.watched.silences[path.index].still(path.look()))
    return;
  link.peer_link().quarantine(
      path, fmt::format("{} for {} s, and its device reports no error", kSilentCause,
                        (silent_ns + kNsPerSecond / 2) / kNsPerSecond));
}

}  // namespace mesh::engine
