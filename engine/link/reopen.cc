// Opening a path that is down: the connector tries, with pauses that grow and never end. New queue
// pairs on both sides (REOPEN, REOPENED), a write of no bytes that shows whether anything gets
// through, and the path is used again (PATH UP).
#include "engine/engine_impl.h"
#include "engine/link/link_setup.h"
#include "src/base/log.h"
#include "src/base/random.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace mesh::engine {

namespace {
constexpr std::uint64_t kBackoffMaxNs = 10'000'000'000;
constexpr std::uint64_t kAnswerBoundNs =
    10'000'000'000;  // the peer's kernel may ask for our address three times
}  // namespace

// True: to be looked at again in a millisecond.
bool EngineImpl::reopen_path(Link& link, std::uint32_t index) {
  PathRepair& repair = link.repairs[index];
  if (!link.connector()) {
    return repair.step == PathRepair::Step::Asked && !link.bring_up && answer_reopen(link, index);
  }
  const bool due = clock_.now_ns() >= repair.at_ns;
  switch (repair.step) {
    case PathRepair::Step::Waiting:
      if (due && !link.bring_up) return begin_reopen(link, index);
      if (!due) services_.tend_at(repair.at_ns);
      return due;
    case PathRepair::Step::Asked:
      if (due) give_up_try(link, index, "the peer has not answered");
      services_.tend_at(repair.at_ns);
      return false;
    case PathRepair::Step::Probing: return probe_path(link, index);
    case PathRepair::Step::Answered:
      if (!link.bring_up)
        raise(link, index, std::exchange(repair.answer, std::nullopt)->ends.front());
      return true;
    case PathRepair::Step::Rising: return false;
  }
  return false;
}

// Queue pairs in RESET under a new epoch.
bool EngineImpl::make_again(Link& link, std::uint32_t index, std::uint32_t epoch,
                            std::string* why) {
  Path& path = link.peer_link().path(index);
  const verbs::Rail& rail = path.lane->rail();
  // The address may have been taken away and given back under another index.
  const verbs::GidEntry& known = rail.gids[path.ends.own_address];
  const std::vector<verbs::GidEntry> gids =
      options_.provider->gids(rail.context.get(), static_cast<std::uint8_t>(rail.info.port));
  const auto found = std::find_if(gids.begin(), gids.end(), [&known](const verbs::GidEntry& each) {
    return each.type == known.type &&
           std::memcmp(each.gid.raw, known.gid.raw, sizeof known.gid.raw) == 0;
  });
  if (found == gids.end()) {
    *why = "our port has lost its address";
    return false;
  }
  {
    const ProgressLoop::Guard guard(link.context().loop);
    link.peer_link().stop_path(path);
    link.peer_link().destroy_path(path);
    path.own_gid_index = found->index;
    path.health.epoch = epoch;
    ++path.health.reopen_tries;
  }
  link.repairs[index].psn = static_cast<std::uint32_t>(random_u64() & 0xffffff);
  if (link.peer_link().make_path(path).ok()) return true;
  *why = "no queue pairs could be made";
  return false;
}

bool EngineImpl::begin_reopen(Link& link, std::uint32_t index) {
  PathRepair& repair = link.repairs[index];
  std::string why;
  if (!make_again(link, index, link.peer_link().path(index).health.epoch + 1, &why)) {
    give_up_try(link, index, why);
    return false;
  }
  repair.step = PathRepair::Step::Asked;
  repair.at_ns = clock_.now_ns() + kAnswerBoundNs;
  services_.tend_at(repair.at_ns);
  link.send(Reopen{.path = static_cast<std::uint8_t>(index),
                   .epoch = link.peer_link().path(index).health.epoch,
                   .ends = offer_path(link, index, repair.psn)});
  return false;
}

void EngineImpl::give_up_try(Link& link, std::uint32_t index, const std::string& why) {
  PathRepair& repair = link.repairs[index];
  Path& path = link.peer_link().path(index);
  {
    const ProgressLoop::Guard guard(link.context().loop);
    link.peer_link().stop_path(path);
    link.peer_link().destroy_path(path);
    path.health.last_cause = why;
  }
  repair.step = PathRepair::Step::Waiting;
  // Where nothing else is up, there is nothing that a try could disturb.
  repair.backoff_ns = std::clamp(repair.backoff_ns * 2, kFirstBackoffNs,
                                 link.stalled_since_ns != 0 ? kStalledBackoffNs : kBackoffMaxNs);
  repair.at_ns = clock_.now_ns() + repair.backoff_ns;
  services_.tend_at(repair.at_ns);
  LOG_INFO("peer {}: path {} is still down: {}; next try in {} ms", link.identity().peer_host,
           path.name, why, repair.backoff_ns / 1'000'000);
}

bool EngineImpl::on_reopen(Link& link, const Reopen& body) {
  if (link.state() != LinkState::Up) return true;
  if (body.path >= link.peer_link().path_count() ||
      body.ends.qpn.size() != link.peer_link().path(body.path).queue_pairs.size()) {
    return link.complain(fmt::format("opens path {} of {} with {} queue pairs", body.path,
                                     link.peer_link().path_count(), body.ends.qpn.size()));
  }
  tend_path(link, body.path);  // its FENCE may have come with the same wake-up
  Path& path = link.peer_link().path(body.path);
  {
    const ProgressLoop::Guard guard(link.context().loop);
    if (body.epoch <= path.health.epoch) return true;  // said again
    if (path.health.state != PathState::Down) {
      return link.complain(fmt::format("opens path {}, which is not down", path.name));
    }
  }
  PathRepair& repair = link.repairs[body.path];
  repair.asked = body;
  if (repair.step != PathRepair::Step::Rising) repair.step = PathRepair::Step::Asked;
  services_.tend_soon();
  return true;
}

bool EngineImpl::answer_reopen(Link& link, std::uint32_t index) {
  PathRepair& repair = link.repairs[index];
  const Reopen asked = *std::exchange(repair.asked, std::nullopt);
  std::string why;
  if (!make_again(link, index, asked.epoch, &why)) {
    refuse_reopen(link, asked, why);
    return false;
  }
  repair.asked_now = asked;
  raise(link, index, asked.ends);
  return true;
}

// One path of a link at a time.
void EngineImpl::raise(Link& link, std::uint32_t index, const WirePath& peer) {
  PathRepair& repair = link.repairs[index];
  repair.step = PathRepair::Step::Rising;
  begin_bring_up(link, {.link = &link.peer_link(),
                        .peer_rails = link.peer_rails,
                        .paths = {peer},
                        .indices = {index},
                        .psn = repair.psn,
                        .settings = settings_of(link.context()),
                        .reopens = true});
  services_.tend_soon();
}

void EngineImpl::refuse_reopen(Link& link, const Reopen& asked, const std::string& why) {
  link.repairs[asked.path].step = PathRepair::Step::Waiting;
  link.send(Reopened{.path = asked.path,
                     .epoch = asked.epoch,
                     .result = Errc::Unreachable,
                     .text = fmt::format("host {}: {}", options_.provider->host_name(), why),
                     .ends = {}});
}

bool EngineImpl::on_reopened(Link& link, const Reopened& body) {
  if (link.state() != LinkState::Up || body.path >= link.peer_link().path_count())
    return link.state() != LinkState::Up;
  PathRepair& repair = link.repairs[body.path];
  Path& path = link.peer_link().path(body.path);
  {
    const ProgressLoop::Guard guard(link.context().loop);
    if (path.health.state != PathState::Down || body.epoch != path.health.epoch)
      return true;  // of a try that was given up
  }
  if (repair.step != PathRepair::Step::Asked) return true;
  if (body.result != Errc::Ok) {
    give_up_try(link, body.path, body.text);
    return true;
  }
  if (body.ends.front().qpn.size() != path.queue_pairs.size()) return false;
  repair.answer = body;
  repair.step = PathRepair::Step::Answered;
  services_.tend_soon();
  return true;
}

// The queue pairs are at RTS, or could not be brought there.
void EngineImpl::reopen_risen(Link& link, const BringUp& done) {
  const std::uint32_t index = done.indices().front();
  PathRepair& repair = link.repairs[index];
  Path& path = link.peer_link().path(index);
  const char* const unreachable = "the peer's address does not answer";
  services_.tend_soon();
  if (link.connector()) {
    if (done.outcome() != Errc::Ok) return give_up_try(link, index, unreachable);
    const ProgressLoop::Guard guard(link.context().loop);
    path.health.probe_failed = !path.queue_pairs[0]->post_probe();
    repair.step = PathRepair::Step::Probing;
    repair.at_ns = clock_.now_ns() + kAnswerBoundNs;
    return;
  }
  if (repair.asked) {
    repair.step = PathRepair::Step::Asked;  // the connector has begun anew meanwhile
  } else if (done.outcome() != Errc::Ok) {
    refuse_reopen(link, repair.asked_now, unreachable);
  } else {
    set_peer_windows(path, done.paths().front());
    repair.step = PathRepair::Step::Answered;
    link.send(Reopened{.path = static_cast<std::uint8_t>(index),
                       .epoch = path.health.epoch,
                       .result = Errc::Ok,
                       .text = "",
                       .ends = {describe_path(path, repair.psn, {})}});
  }
}

bool EngineImpl::probe_path(Link& link, std::uint32_t index) {
  Path& path = link.peer_link().path(index);
  bool failed = false, through = false;
  {
    const ProgressLoop::Guard guard(link.context().loop);
    link.context().loop.drain_completions();
    failed = path.health.probe_failed;
    through = path.queue_pairs[0]->outstanding() == 0;
  }
  if (failed || clock_.now_ns() >= link.repairs[index].at_ns) {
    give_up_try(link, index, "nothing gets through");
    return false;
  }
  if (!through) return true;
  admit_path(link, index);
  link.send(PathUp{.path = static_cast<std::uint8_t>(index), .epoch = path.health.epoch});
  return false;
}

void EngineImpl::admit_path(Link& link, std::uint32_t index) {
  Path& path = link.peer_link().path(index);
  PathRepair& repair = link.repairs[index];
  {
    const ProgressLoop::Guard guard(link.context().loop);
    link.peer_link().admit(path);
    note_admitted(link);
  }
  const std::uint64_t now_ns = clock_.now_ns();
  LOG_INFO("peer {}: path {} is back after {} ms", link.identity().peer_host, path.name,
           (now_ns - repair.lost_at_ns) / 1'000'000);
  // at_ns: until then a failure counts as the same trouble, and the pause goes on growing.
  repair = {.at_ns = now_ns + kSteadyNs,
            .backoff_ns = std::clamp(repair.backoff_ns * 2, kFirstBackoffNs, kBackoffMaxNs)};
}

bool EngineImpl::on_path_up(Link& link, const PathUp& body) {
  if (link.state() != LinkState::Up) return true;
  if (body.path >= link.peer_link().path_count()) return false;
  if (link.repairs[body.path].step != PathRepair::Step::Answered ||
      body.epoch != link.peer_link().path(body.path).health.epoch)
    return true;
  admit_path(link, body.path);
  return true;
}

}  // namespace mesh::engine
