// Memory of channels that devices must register first: channels wait for it in their order.
#include "engine/link/context.h"
#include "engine/link/link.h"
#include "engine/link/link_setup.h"
#include "engine/link/openings.h"
#include "src/base/check.h"
#include "src/base/held_locks.h"
#include "src/base/log.h"
#include "src/base/timeouts.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

namespace mesh::engine {

bool Openings::waits_for_devices(std::uint32_t index) const noexcept {
  return link_.host().options().threading != Threading::Manual &&
         link_.peer_link().memory().waits_for_devices(index);
}

Result<PeerWritable> Openings::memory_for(std::uint32_t index) {
  LinkMemory& memory = link_.peer_link().memory();
  if (!memory.waits_for_devices(index)) return memory.channel_memory(index);
  const WaitsUnderLocks no_threads;
  return memory.channel_memory(index);
}

void Openings::end_growth() {
  if (!growing()) return;
  growth_->task.wait();
  finish_growth();
}

// Has memory registered for the channel and those that follow it.
void Openings::grow(std::uint32_t index) {
  CHECK(!growing());
  LinkHost& host = link_.host();
  auto made = std::make_unique<Growth>(link_.peer_link().memory(), index);
  made->until_ns = host.now_ns() + kHandshakeStepToAnswerNs;
  growth_ = std::move(made);
  const auto work = [growth = growth_.get(), &host] {  // so small that no memory is needed for it
    growth->of_memory.run();
    growth->over.store(true, std::memory_order_release);
    host.waker().wake_control();
  };
  if (!host.thread_pool().begin(growth_->task, work).ok()) {
    const WaitsUnderLocks no_thread;
    work();
  }
  host.tend_at(growth_->until_ns);
  host.tend_soon();
}

void Openings::finish_growth() {
  if (!growing() || !growth_->over.load(std::memory_order_acquire)) return;
  const std::unique_ptr<Growth> done = std::move(growth_);
  LinkMemory& memory = link_.peer_link().memory();
  const Status taken = memory.take(done->of_memory);
  if (link_.state() == LinkState::Down) return memory.release();
  if (!link_.connector()) return open_held(taken);
  const std::vector<PendingConnect*>& waiting = link_.waiting;
  const auto first = std::find_if(waiting.begin(), waiting.end(), [](const PendingConnect* stage) {
    return stage->state == StageState::Waiting;
  });
  if (!taken.ok() && first != waiting.end()) decline(**first, taken.code());
  open_all();
}

// Fails the connects that wait for a device for too long. Those that come later wait, too.
void Openings::give_up_growth() {
  if (!growing() || !link_.connector() || link_.host().now_ns() < growth_->until_ns) return;
  const std::vector<PendingConnect*> waiting = link_.waiting;
  for (PendingConnect* const stage : waiting) {
    if (stage->state != StageState::Waiting) continue;
    LOG_WARN("peer {}: no device has registered memory for a channel in {} s; the connect fails",
             link_.identity().peer_host, kHandshakeStepToAnswerNs / kNsPerSecond);
    decline(*stage, Errc::Timeout);
  }
}

// Opens the channels that have waited for memory. `memory` is for the first of them.
void Openings::open_held(const Status& memory) {
  Status status = memory;
  while (!held_.empty() && !growing()) {
    const Open asked = held_.front();
    held_.erase(held_.begin());
    if (refuses(asked)) continue;
    if (!status.ok()) {
      refuse_for(*link_.context().listener(asked.listener), asked, status.code());
    } else if (waits_for_devices(asked.channel)) {
      held_.insert(held_.begin(), asked);
      grow(asked.channel);
    } else {
      welcome_channel(asked);
    }
    status = {};
  }
}

namespace {
// Returns the key of the channel, or none if the frame does not tell it.
std::optional<std::uint32_t> key_of(const CardKeys& told, std::uint32_t channel) noexcept {
  if (channel < told.keys.front().first || channel >= told.behind) return std::nullopt;
  const auto after = std::upper_bound(
      told.keys.begin(), told.keys.end(), channel,
      [](std::uint32_t index, const CardKeys::Run& run) { return index < run.first; });
  return std::prev(after)->rkey;
}
}  // namespace

// Returns a path to the peer's rail that carries messages or waits for its fence, or null.
const Path* Openings::find_in_use(std::uint32_t peer_rail) const {
  const ProgressLoop::Guard guard(link_.context().loop);
  for (const Path& path : std::as_const(link_.peer_link()).paths().all()) {
    const PathState state = path.health.state;
    if (path.ends.peer_rail == peer_rail &&
        (state == PathState::Up || state == PathState::Quarantined))
      return &path;
  }
  return nullptr;
}

// Takes the keys for all paths that lead to the peer's rail, and for those that may.
bool Openings::on(const CardKeys& body) {
  PeerLink& peer_link = link_.peer_link();
  const PathSet& paths = peer_link.paths();
  if (body.rail >= link_.terms.peer_rails.size()) return false;
  if (const Path* const path = find_in_use(body.rail); path != nullptr)
    return link_.complain(fmt::format("tells new keys for path {}, which is in use", path->name));
  std::vector<std::uint32_t> places;
  for (const Path& path : paths.all())
    if (path.ends.peer_rail == body.rail && !path.ends.is_place()) places.push_back(path.far_key);
  if (names_rails(paths)) places.push_back(paths.count() + body.rail);
  const ProgressLoop::Guard guard(link_.context().loop);
  peer_link.channels().for_each([&](Channel& channel) {
    const std::optional<std::uint32_t> rkey = key_of(body, channel.index);
    if (!rkey) return;
    for (const std::uint32_t place : places) {
      if (link_.connector())
        static_cast<SendChannel&>(channel).set_records_key(place, *rkey);
      else
        RecvChannel::of(channel).set_credits_key(place, *rkey);
    }
  });
  for (Open& held : held_) {
    const std::optional<std::uint32_t> rkey = key_of(body, held.channel);
    for (const std::uint32_t place : places)
      if (rkey) held.credits_rkey[place] = *rkey;
  }
  return true;
}

bool Openings::withdraw(std::uint32_t channel) {
  const auto found = std::find_if(held_.begin(), held_.end(),
                                  [channel](const Open& each) { return each.channel == channel; });
  if (found == held_.end()) return false;
  answer(*found, Errc::PeerClosed);
  held_.erase(found);
  return true;
}

}  // namespace mesh::engine
