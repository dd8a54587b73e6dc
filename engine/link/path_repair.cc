#include "engine/link/path_repair.h"

#include "engine/data/channel.h"
#include "engine/data/flusher.h"
#include "engine/data/peer_link.h"
#include "engine/data/registration.h"
#include "engine/link/context.h"
#include "engine/link/link.h"
#include "engine/link/misfit_lines.h"
#include "engine/link/peer_words.h"
#include "src/base/check.h"
#include "src/base/log.h"
#include "src/base/timeouts.h"
#include "src/verbs/discovery.h"

#include <algorithm>
#include <new>

namespace mesh::engine {

namespace {
std::vector<Registration*> device_regions(const PeerLink& link) {
  std::vector<Registration*> regions;
  link.channels().for_each([&regions](const Channel& channel) {
    for (const auto& [region, uses] : channel.regions)
      if (region->type == MemoryType::Device) regions.push_back(region);
  });
  return regions;
}

// Completions are a device's last writes for a queue pair: when all its receives have come back, no
// write of it is under way.
bool drained(const Path& path) {
  return std::all_of(path.queue_pairs.begin(), path.queue_pairs.end(),
                     [](const auto& queue_pair) { return queue_pair->receives().drained(); });
}

bool owes(const PeerLink& link) {
  const auto paths = link.paths().all();
  return std::any_of(paths.begin(), paths.end(), [](const Path& path) {
    return path.health.state == PathState::Up && path.owes_completion();
  });
}

// Returns a count that grows with whatever gets through of messages, in either direction.
std::uint64_t work_done(PeerLink& link) {
  std::uint64_t sum = 0;
  for (const Path& path : link.paths().all()) {
    const PathCounters counters = path.counters();
    sum += counters.send_completions + counters.announcements - path.timed_writes();
  }
  return sum;
}
}  // namespace

PathFlush::~PathFlush() {
  for (Flush* const flush : open_) flusher_->abandon(*flush);
}

void PathFlush::begin(Flusher& flusher, const PeerLink& link, std::uint32_t rail) {
  DCHECK(!begun());
  flusher_ = &flusher;
  const std::vector<Registration*> regions = device_regions(link);
  open_.reserve(regions.size());
  for (Registration* const region : regions) {
    const Result<Flush*> started = flusher.start_before_fence(
        {.region = region, .address = region->address}, rail, link.paths().written_rails());
    if (!started.ok()) throw std::bad_alloc();
    open_.push_back(*started);
  }
}

Errc PathFlush::finish() noexcept {
  Errc failed = Errc::Ok;
  std::erase_if(open_, [this, &failed](Flush* flush) {
    const Errc answer = flusher_->finish(*flush);
    if (answer != Errc::Ok && answer != Errc::WouldBlock) failed = answer;
    return answer != Errc::WouldBlock;
  });
  if (failed != Errc::Ok || open_.empty()) return failed;
  return Errc::WouldBlock;
}

void PathRepair::begin() {
  CHECK(repairs_.empty());
  repairs_.resize(link_.peer_link().paths().count());
  relayed_.begin();
}

void PathRepair::leave_out(const std::vector<std::uint8_t>& down) {
  const ProgressLoop::Guard guard(link_.context().loop);
  for (const std::uint8_t index : down) {
    Path& path = link_.peer_link().paths()[index];
    if (path.health.state == PathState::Down) continue;
    const bool port_down = path.ends.port_down;
    link_.peer_link().leave_out(path,
                                port_down ? "a port of it is down" : "it could not be brought up");
    const std::uint64_t now_ns = link_.host().now_ns();
    repairs_[index] = {
        .at_ns = now_ns + kTryPauseMinNs, .backoff_ns = kTryPauseMinNs, .lost_at_ns = now_ns};
    say_left_out(path);
  }
}

void PathRepair::say_left_out(const Path& path) const {
  const PathSet& paths = link_.peer_link().paths();
  const std::string& peer = link_.identity().peer_host;
  const LogLevel level = link_.host().peer_log().note_loss(link_.peer_link(), path, false);
  if (path.ends.guessed && !path.ends.port_down) {
    LOG_DETAIL("peer {}: path {} could not be brought up and may be no cable", peer, path.name);
    return;
  }
  MESH_LOG(path.ends.port_down ? std::max(level, LogLevel::Info) : level,
           "peer {}: path {} {}; {} of {} paths carry on", peer, path.name,
           path.ends.port_down ? "has a port that is down, and joins when it comes up"
                               : "could not be brought up",
           paths.usable_count(), paths.primary_count());
}

void PathRepair::try_now(std::uint32_t index) {
  const PathState state = link_.peer_link().paths()[index].health.state;
  const bool lost = state == PathState::Down || state == PathState::Quarantined;
  if (!lost || !link_.connector()) return;
  Repair& repair = repairs_[index];
  repair.changed = true;
  if (state == PathState::Down && repair.connector_step == ConnectorStep::Waiting) hurry(repair);
}

// ---- The fence.

bool PathRepair::tend() {
  if (link_.state() != LinkState::Up || link_.failure() != Errc::Ok) return false;
  bool again = false;
  call_beside();
  if (!link_.peer_link().paths().all_up()) {
    for (std::uint32_t i = 0; i < link_.peer_link().paths().count(); ++i) again |= tend_path(i);
  }
  relayed_.watch();
  note_stall();
  if (!rewriting_) return again;
  const ProgressLoop::Guard guard(link_.context().loop);
  rewriting_ = !link_.peer_link().channels().rewrite_credits();
  return again || rewriting_;
}

void PathRepair::note_admitted() {
  admitted_ns_ = link_.host().now_ns();
  work_when_admitted_ = work_done(link_.peer_link());
}

bool PathRepair::tend_path(std::uint32_t index) {
  CHECK(repairs_.size() == link_.peer_link().paths().count() && index < repairs_.size());
  PathState state = PathState::Up;
  bool is_outranked = false;
  {
    const ProgressLoop::Guard guard(link_.context().loop);
    const Path& path = link_.peer_link().paths()[index];
    state = path.health.state;
    is_outranked = link_.peer_link().paths().is_outranked(path);
  }
  if (state == PathState::Quarantined) return fence(index);
  if (state != PathState::Down || !pay_fence(index)) return false;
  if (is_unasked_beside(index)) return let_beside_stand_by(index);
  // An acceptor keeps a try that it was asked for: the connector may have admitted the path, or may
  // be about to, because a better one is lost. It says so if it leaves the try.
  const bool asked = !link_.connector() && repairs_[index].being_opened();
  return is_outranked && !asked ? let_stand_by(index) : reopen(index);
}

// Tends lost paths before a REOPEN, or new keys: the frames that end the fence may have come with
// this wake-up.
void PathRepair::tend_lost() {
  for (std::uint32_t i = 0; i < link_.peer_link().paths().count(); ++i) tend_path(i);
}

void PathRepair::pay_fences() {
  for (std::uint32_t i = 0; i < repairs_.size(); ++i) pay_fence(i);
}

void PathRepair::rewrite_soon() {
  CHECK(!link_.connector());
  rewriting_ = true;
  link_.touch();
  link_.host().tend_soon();
}

// A connector goes on after the acceptor's FENCE, whatever its own device does: nothing of its
// queue pairs lands on an acceptor's that have stopped. What the acceptor's queue pairs have
// written may still land here, so the connector owes its FENCE, after which credits are written
// again.
bool PathRepair::fence(std::uint32_t index) {
  Repair& repair = repairs_[index];
  Path& path = link_.peer_link().paths()[index];
  const bool said = repair.said || say_fence(index);
  await_answer(repair);
  // The device's answer wakes us.
  if (!repair.peer_said || (!said && !link_.connector()))
    return !said && !path.stops() && !path.destroys();
  CHECK(!repair.being_opened());
  const ProgressLoop::Guard guard(link_.context().loop);
  const std::uint64_t before = path.health.replayed_stripes;
  if (!link_.peer_link().account_lost(path, repair.peer_taken)) {
    link_.peer_link().fail(Errc::Protocol,
                           fmt::format("counts announcements on {} that were not made", path.name));
    return true;
  }
  link_.peer_link().paths().destroy(path);
  relayed_.cut(index);
  rewriting_ = !link_.connector();
  LOG_DETAIL("peer {}: path {} is fenced; {} stripes are sent again", link_.identity().peer_host,
             path.name, path.health.replayed_stripes - before);
  // A path that fails again soon after it came back keeps its longer pause.
  const bool soon = repair.backoff_ns != 0 && link_.host().now_ns() < repair.at_ns;
  const std::uint64_t backoff_ns = soon ? repair.backoff_ns : kTryPauseMinNs;
  repair = {.at_ns = link_.host().now_ns() + backoff_ns,
            .backoff_ns = backoff_ns,
            .lost_at_ns = repair.lost_at_ns,
            .changed = repair.changed};
  repair.owed = !said;
  if (repair.changed) hurry(repair);
  return true;
}

// The peer's FENCE wakes us. If the control connection ran over the cable that was lost, TCP would
// notice it only after kSilenceToDeadHostMs.
void PathRepair::await_answer(Repair& repair) {
  if (repair.other_way_at_ns == 0 || repair.peer_left) return;
  if (link_.host().now_ns() < repair.other_way_at_ns)
    return link_.host().tend_at(repair.other_way_at_ns);
  repair.other_way_at_ns = 0;
  link_.distrust_connection(fmt::format("{}: no answer to FENCE in {} ms", link_.connection_name(),
                                        kFenceToOtherWayNs / kNsPerMs));
}

// Sends the FENCE that is owed once the device has stopped the queue pairs. Returns false while one
// is owed; the device's answer wakes us.
bool PathRepair::pay_fence(std::uint32_t index) {
  Repair& repair = repairs_[index];
  if (!repair.owed) return true;
  const Path& path = link_.peer_link().paths()[index];
  if (path.stops()) {
    tell_slow(path, repair.lost_at_ns, "stopped", "the path is not opened again before");
    return false;
  }
  repair.owed = false;
  const ProgressLoop::Guard guard(link_.context().loop);
  link_.send(fence_of(path, 1));
  return true;
}

// Begins the flush before FENCE, and goes on with it. Returns true when it is done; false if the
// caller must call again, or the link has failed.
bool PathRepair::advance_flush(const Path& path) {
  Repair& repair = repairs_[path.index];
  Flusher& flusher = *link_.context().loop.flusher;
  if (!repair.flush.begun()) repair.flush.begin(flusher, link_.peer_link(), path.rail);
  if (path.device->gone() ||
      verbs::port_now(path.device->provider(), path.device->rail()).card_left)
    flusher.leave(path.rail);
  Errc answer = repair.flush.finish();
  const bool late = link_.host().now_ns() >= repair.drain_until_ns + device_bound_ns();
  if (answer == Errc::WouldBlock && late) answer = Errc::Timeout;
  if (answer == Errc::Ok || answer == Errc::WouldBlock) return answer == Errc::Ok;
  link_.peer_link().fail(
      answer, fmt::format("the flush of GPU memory behind lost path {} has failed, so its "
                          "data might overwrite what is sent again; the link ends",
                          path.name));
  return false;
}

// Returns how long a fence waits for a device. Requests over other paths go on meanwhile, and
// without any other path note_stall() ends the link after NCCL_MESH_PATH_TIMEOUT.
std::uint64_t PathRepair::device_bound_ns() const noexcept {
  return std::max(kStopToGivenUpNs, link_.path_timeout_ns());
}

// Returns false if the caller must ask again, or the link has failed.
bool PathRepair::await_destruction(const Path& path) {
  if (!path.destroys()) return true;
  wait_for_device(path, repairs_[path.index].drain_until_ns, "destroyed");
  return false;
}

// Logs a line when the device is late, and fails the link when it is too late.
void PathRepair::wait_for_device(const Path& path, std::uint64_t since_ns, const char* what) {
  const std::uint64_t bound_s = device_bound_ns() / kNsPerSecond;
  if (link_.host().now_ns() >= since_ns + device_bound_ns())
    return link_.peer_link().fail(
        Errc::Timeout,
        fmt::format("device {} has not {} the queue pairs of {} within {} s, so late data might "
                    "overwrite what is sent again; the link ends",
                    path.device->name(), what, path.name, bound_s));
  link_.host().tend_at(since_ns + device_bound_ns());
  tell_slow(path, since_ns, what,
            fmt::format("what it carried waits for that, {} s at most", bound_s));
}

void PathRepair::tell_slow(const Path& path, std::uint64_t since_ns, const char* what,
                           const std::string& so) {
  Repair& repair = repairs_[path.index];
  if (repair.told_slow) return;
  const std::uint64_t now_ns = link_.host().now_ns();
  if (now_ns < since_ns + kCallToToldNs) return link_.host().tend_at(since_ns + kCallToToldNs);
  repair.told_slow = true;
  const std::string& peer = link_.identity().peer_host;
  const bool first = link_.host().peer_log().is_news(peer, path.device->name() + " is slow");
  MESH_LOG(first ? LogLevel::Warn : LogLevel::Detail,
           "peer {}: device {} has not {} the queue pairs of lost path {} for {} s; {}", peer,
           path.device->name(), what, path.name, (now_ns - since_ns) / kNsPerSecond, so);
}

// Acceptor: counts what the queue pairs took. Returns false if not everything is counted yet.
bool PathRepair::count_taken(Path& path, std::vector<std::uint64_t>* taken) {
  Repair& repair = repairs_[path.index];
  if (repair.own_taken.empty()) {
    const bool all_came_back = drained(path);
    const bool may_come = !path.device->gone() && link_.host().now_ns() < repair.drain_until_ns;
    if (!all_came_back && may_come) return false;
    if (!advance_flush(path)) return false;
    for (const auto& queue_pair : path.queue_pairs)
      repair.own_taken.push_back(queue_pair->receives().taken());
    link_.peer_link().paths().destroy(path);
    repair.gone_first = !all_came_back;
  }
  if (repair.gone_first && !await_destruction(path)) return false;
  *taken = std::move(repair.own_taken);
  return true;
}

// Returns true once the queue pairs are in ERR. The caller holds the progress lock.
bool PathRepair::stop(Path& path) {
  Repair& repair = repairs_[path.index];
  const std::uint64_t now_ns = link_.host().now_ns();
  if (repair.stop == Repair::Stop::NotAsked) {
    repair.stop = Repair::Stop::Asked;
    repair.lost_at_ns = now_ns;
    path.stop();
  }
  if (path.stops()) {
    wait_for_device(path, repair.lost_at_ns, "stopped");
    return false;
  }
  repair.stop = Repair::Stop::Stopped;
  repair.drain_until_ns = now_ns + kStopToDrainedNs;
  return true;
}

Fence PathRepair::fence_of(const Path& path, std::uint8_t stopped) const {
  return {.path = static_cast<std::uint8_t>(path.index),
          .epoch = path.health.epoch,
          .cause = in_peers_words(path.health.last_cause),
          .stopped = stopped,
          .taken = {}};
}

// Returns true once nothing lands on our queue pairs any more and everything is counted. The caller
// holds the progress lock.
bool PathRepair::settle(Path& path, std::vector<std::uint64_t>* taken) {
  if (repairs_[path.index].stop != Repair::Stop::Stopped && !stop(path)) return false;
  link_.peer_link().paths().drain_completions();
  return link_.connector() || count_taken(path, taken);
}

// Sends FENCE at once, and again when everything is counted. Returns false before that.
bool PathRepair::say_fence(std::uint32_t index) {
  Repair& repair = repairs_[index];
  Path& path = link_.peer_link().paths()[index];
  const ProgressLoop::Guard guard(link_.context().loop);
  std::vector<std::uint64_t> taken;
  repair.said = settle(path, &taken);
  if (!repair.said && repair.left_said) return false;
  Fence fence = fence_of(path, repair.said ? 1 : 0);
  fence.taken = std::move(taken);
  if (!std::exchange(repair.left_said, true)) {
    repair.other_way_at_ns = link_.host().now_ns() + kFenceToOtherWayNs;
  }
  link_.send(fence);
  if (repair.said && !link_.connector() && !repair.peer_said) {
    // The connector's device may be slow to stop. Its FENCE has them written once more.
    link_.peer_link().channels().for_each([&path](Channel& channel) { channel.fenced(path); });
    rewriting_ = true;
  }
  return repair.said;
}

bool PathRepair::on(const Fence& body) {
  if (link_.state() != LinkState::Up) return true;
  const bool counted = link_.connector() && body.stopped != 0;
  const std::size_t counts = counted ? 1 + link_.peer_link().policy().qps : 0;
  const bool express_only =
      counted && link_.peer_link().policy().late_qps && body.taken.size() == 1;
  if (body.path >= link_.peer_link().paths().count() ||
      (body.taken.size() != counts && !express_only)) {
    return link_.complain(fmt::format("FENCE for path {} of {} has {} counts, expected {}",
                                      body.path, link_.peer_link().paths().count(),
                                      body.taken.size(), counts));
  }
  Repair& repair = repairs_[body.path];
  Path& path = link_.peer_link().paths()[body.path];
  if (hear_left(body)) return true;
  {
    const ProgressLoop::Guard guard(link_.context().loop);
    const bool carries =
        path.health.state == PathState::Up || path.health.state == PathState::Quarantined;
    if (body.epoch != path.health.epoch || !carries) return true;  // a repeated FENCE
    link_.peer_link().quarantine(
        path, fmt::format("host {}: {}", link_.identity().peer_host, body.cause));
  }
  repair.peer_left = true;
  repair.peer_said = body.stopped != 0;
  repair.peer_taken = body.taken;
  link_.host().tend_soon();
  return true;
}

// Ends that do not fit have a remedy of their own, which stands in the place of the neighbours'.
void PathRepair::fail_without_route() {
  const std::string& why = link_.peer_link().reach().why();
  if (tells_misfit(why)) return fail_told(Errc::Unreachable, "no path leads to it; " + why);
  fail_told(Errc::Unreachable, fmt::format("no path leads to it{}; no known host joins the two; {}",
                                           relayed_.told_of_neighbours(), why));
}

std::string PathRepair::causes() const {
  PeerLink& link = link_.peer_link();
  std::string text;
  for (std::uint32_t i = 0; i < link.paths().count(); ++i) {
    const Path& path = link.paths()[i];
    if (path.health.state == PathState::Standby) continue;
    const bool waits = path.health.last_cause.empty() || link_.rises(i);
    text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", path.name,
                        waits ? what_is_awaited(i) : path.health.last_cause);
    if (path.destroys()) text += " (the device has not yet destroyed the former queue pairs)";
  }
  return text;
}

// Names the card and the command that a bring-up of the path waits for.
std::string PathRepair::what_holds_up(const Path& path) const {
  std::string call = path.device->calls.oldest();
  return call.empty() ? "its queue pairs are being made" : std::move(call);
}

// Returns what a path waits for that has no failure to name yet.
std::string PathRepair::what_is_awaited(std::uint32_t index) const {
  if (!link_.connector()) {
    switch (repairs_[index].acceptor_step) {
      case AcceptorStep::AwaitReopen: return "the peer has not asked to open it";
      case AcceptorStep::Asked: return "its queue pairs cannot be made yet";
      case AcceptorStep::Rising: return what_holds_up(link_.peer_link().paths()[index]);
      case AcceptorStep::AwaitPathUp: return "the peer's probe has not come through";
    }
  }
  switch (repairs_[index].connector_step) {
    case ConnectorStep::Waiting: return "its turn to be opened has not come";
    case ConnectorStep::Chaining:
    case ConnectorStep::Joining: return relayed_.who_is_asked(index);
    case ConnectorStep::AwaitReopened: return "the peer has not answered";
    case ConnectorStep::Reopened: return "its queue pairs cannot connect yet";
    case ConnectorStep::Making:
    case ConnectorStep::Rising: return what_holds_up(link_.peer_link().paths()[index]);
    case ConnectorStep::Probing: return "its probe has not come through";
  }
  return {};
}

// Ends the link if requests have waited too long without any path. A path that comes back and fails
// at once does not count: only work that got through, or a while without trouble, ends the wait. A
// path that owes completions after that while is in trouble: our card may complete nothing. The
// time for which a path is up and owes nothing is not part of the wait.
void PathRepair::note_stall() {
  // On a link that never had a path only the connector, which opens it, counts the time: an
  // acceptor may post receives long before anything is sent.
  const PeerLink& sleeper = link_.peer_link();
  const bool wanted =
      !sleeper.reach().lazy() || (link_.connector() && sleeper.reach().wants_path());
  if (stalled_since_ns_ == 0 && (!wanted || (sleeper.paths().all_up() && !sleeper.reach().lazy())))
    return;
  const std::uint64_t now_ns = link_.host().now_ns();
  const std::uint64_t bound_ns = link_.path_timeout_ns();
  const ProgressLoop::Guard guard(link_.context().loop);
  if (!link_.peer_link().paths().stalled()) {
    relayed_.found_path();
    if (stalled_since_ns_ == 0) return;
    const bool works = work_done(link_.peer_link()) != work_when_admitted_;
    const bool settles = now_ns >= admitted_ns_ + kPathUpToSteadyNs && !owes(link_.peer_link());
    const std::uint64_t up_ns = now_ns - std::max(looked_ns_, admitted_ns_);
    if (!owes(link_.peer_link())) stalled_since_ns_ += up_ns;
    if (works || settles) stalled_since_ns_ = 0;
    looked_ns_ = now_ns;
    if (stalled_since_ns_ != 0) link_.host().tend_at(now_ns + kSilenceLookToNextNs);
    return;
  }
  if (stalled_since_ns_ == 0) stalled_since_ns_ = now_ns;
  call_standby(now_ns);
  if (relayed_.is_lost(stalled_since_ns_)) return fail_without_route();
  for (Repair& repair : repairs_) {
    if (repair.connector_step != ConnectorStep::Waiting) continue;
    repair.at_ns = std::min(repair.at_ns, now_ns + kReopenPauseStalledMaxNs);
  }
  if (now_ns >= stalled_since_ns_ + bound_ns &&
      !link_.peer_link().channels().have_open_requests() && !link_.peer_link().reach().lazy())
    stalled_since_ns_ = now_ns;  // no request waits
  link_.host().tend_at(stalled_since_ns_ + bound_ns);
  if (now_ns < stalled_since_ns_ + bound_ns) return;
  const std::size_t paths = link_.peer_link().paths().count();
  std::string remedy = relayed_.told_of_neighbours();
  if (remedy.empty()) remedy = "; check its cables and ports";
  if (link_.connection() == 0)
    remedy = ", nor has its control connection: the host is down, stands still or is cut off";
  fail_told(Errc::Timeout, fmt::format("{} come back within {} s (NCCL_MESH_PATH_TIMEOUT){}: {}",
                                       paths == 1 ? std::string("its only path has not")
                                                  : fmt::format("none of its {} paths has", paths),
                                       bound_ns / kNsPerSecond, remedy, causes()));
}

// Fails the link. The links of both directions fail alike, and the first one warns.
void PathRepair::fail_told(Errc why, const std::string& text) {
  const bool first = link_.host().peer_log().is_first_end(link_.identity().peer_host);
  link_.peer_link().fail(why, text, first ? LogLevel::Warn : LogLevel::Detail);
}

}  // namespace mesh::engine
