#include "engine/data/path_set.h"

#include "engine/data/device_context.h"
#include "engine/data/path.h"
#include "engine/data/peer_link.h"
#include "engine/data/progress_loop.h"
#include "engine/data/registration.h"
#include "engine/data/send_queue_pair.h"
#include "src/base/check.h"

#include <algorithm>
#include <utility>

namespace mesh::engine {

void BulkOrder::assign(const std::vector<Path*>& usable) {
  reservation_.withdraw();  // it was made for other queue pairs
  std::size_t fewest = usable.empty() ? 1 : usable.front()->queue_pairs.size();
  for (const Path* const path : usable) fewest = std::min(fewest, path->queue_pairs.size());
  DCHECK(fewest != 0);
  each_ = static_cast<std::uint32_t>(fewest) - 1;  // without the express one
  last_for_small_ = std::max(each_, 1u);
  order_.clear();
  for (const std::uint32_t round : {0u, 1u}) {
    for (std::size_t i = 1; i <= each_; ++i) {
      for (const Path* const path : usable)
        order_.push_back(&SendQueuePair::of(*path->queue_pairs[i]));
    }
    if (round == 0) count_ = static_cast<std::uint32_t>(order_.size());
  }
  DCHECK(order_.size() == std::size_t{2} * count_);
  cursor_ = 0;
}

bool BulkOrder::reserve_uniform() noexcept {
  reservation_.withdraw();
  if (empty()) {
    late_.want();
    return false;
  }
  std::uint32_t least = UINT32_MAX;
  for (std::uint32_t i = 0; i < count_; ++i) least = std::min(least, order_[i]->stripes_left());
  reservation_.give(least);
  return reservation_.take();
}

PathSet::PathSet(PeerLink& link)
    : link_(link),
      loop_(link.loop()),
      policy_(link.policy()),
      bulk_(link.late()),
      shares_(policy_) {}

void PathSet::expect(std::size_t paths) {
  paths_.reserve(paths);
  usable_.reserve(paths);
}

Path& PathSet::place(DeviceContext& device, const PathEnds& ends, std::string name) {
  if (paths_.capacity() == 0) expect(kPathsMax);
  CHECK(paths_.size() < kPathsMax && paths_.size() < paths_.capacity() && none_ == nullptr);
  Path& path = paths_.emplace_back();
  path.device = &device;
  path.index = path.own_key = path.far_key = count() - 1;
  path.rail = device.index();
  path.ends = ends;
  path.name = std::move(name);
  path.set_port_speed(policy_, device.rail().info.speed_mbps);
  return path;
}

Path& PathSet::add_primary(DeviceContext& device, const PathEnds& ends, std::string name) {
  CHECK(primary_count_ == paths_.size());
  Path& added = place(device, ends, std::move(name));
  added.key_place = primary_count_++;
  insert_rails({&added.rail, 1});
  provide(added, policy_.late_qps ? 1 : 1 + policy_.qps);
  return added;
}

Path& PathSet::add_primary_on_standby(DeviceContext& device, const PathEnds& ends,
                                      std::string name) {
  CHECK(primary_count_ == paths_.size());
  Path& added = place(device, ends, std::move(name));
  added.key_place = primary_count_++;
  added.health.state = PathState::Standby;
  provide_queue_pairs(added);
  return added;
}

void PathSet::add_beside(DeviceContext& device, const PathEnds& ends, std::string name) {
  CHECK(ends.relayed && !has_beside_);
  has_beside_ = true;
  insert_rails({&add_primary_on_standby(device, ends, std::move(name)).rail, 1});
}

void PathSet::add_standby(DeviceContext& device, const PathEnds& ends, std::string name) {
  CHECK(primary_count_ != 0);
  Path& added = place(device, ends, std::move(name));
  added.tier = added.index / primary_count_;
  added.key_place = added.index % primary_count_;
  added.health.state = PathState::Standby;
}

std::uint32_t PathSet::standby_count() const noexcept {
  const auto unknown = std::count_if(paths_.begin(), paths_.end(),
                                     [](const Path& path) { return path.ends.by_proof; });
  return count() - direct_count() - static_cast<std::uint32_t>(unknown);
}

void PathSet::add_place(DeviceContext& any, std::string name, std::uint32_t hosts_least) {
  const PathEnds ends{.relayed = hosts_least != 0, .by_proof = hosts_least == 0};
  if (paths_.empty()) {
    add_primary_on_standby(any, ends, std::move(name)).hosts_least = hosts_least;
    return;
  }
  Path& added = place(any, ends, std::move(name));
  added.tier = (*this)[added.index - 1].tier + 1;
  added.hosts_least = hosts_least;
  added.health.state = PathState::Standby;
}

void PathSet::name_rails(Path& path, DeviceContext& device, const PathEnds& ends,
                         std::string name) {
  DCHECK(loop_.held());
  CHECK(path.ends.is_place() && path.health.state == PathState::Down);
  CHECK(path.queue_pairs.empty() || path.queue_pairs[0]->verbs() == nullptr);
  if (path.name != name) path.leave_rails();
  path.device = &device;
  path.rail = device.index();
  const bool relayed = path.ends.relayed;
  path.ends = ends;
  path.ends.relayed = relayed;
  path.ends.by_proof = !relayed;
  path.name = std::move(name);
  path.own_key = count() + path.rail;
  path.far_key = count() + path.ends.peer_rail;
}

void PathSet::add_none(DeviceContext& any) {
  CHECK(paths_.empty() && none_ == nullptr);
  const ProgressLoop::Guard guard(loop_);
  none_ = std::make_unique<Path>();
  none_->device = &any;
  none_->rail = any.index();
  none_->health.state = PathState::Down;
  none_->queue_pairs.push_back(new_queue_pair(link_, *none_, 0));
  none_->queue_pairs.front()->quarantine();
}

void PathSet::add_rails(std::span<const std::uint32_t> rails) {
  DCHECK(loop_.held());
  insert_rails(rails);
}

void PathSet::insert_rails(std::span<const std::uint32_t> rails) {
  for (const std::uint32_t rail : rails) {
    const auto at = std::lower_bound(rails_.begin(), rails_.end(), rail);
    if (at == rails_.end() || *at != rail) rails_.insert(at, rail);
  }
  note_written_rails();
}

// Counts rails with queue pairs, because a peer may write long before it says that the path is up.
// They go with the fence, which has flushed what came over them.
void PathSet::note_written_rails() noexcept {
  std::uint64_t rails = 0;
  for (const Path& path : paths_) {
    // The peer learns of queue pairs only after the link's memory is on their rail.
    const bool known = std::binary_search(rails_.begin(), rails_.end(), path.rail);
    const bool there = !path.queue_pairs.empty() && path.queue_pairs[0]->verbs() != nullptr;
    if (known && there) rails |= std::uint64_t{1} << path.rail;
  }
  written_rails_.store(rails, std::memory_order_release);
}

QueuePair& PathSet::express(std::uint32_t channel) noexcept {
  if (none_ != nullptr) return *none_->queue_pairs[0];
  if (!stalled()) return *usable_[channel % express_count_]->queue_pairs[0];
  // The primary paths have queue pairs whatever their state is.
  return *(*this)[channel % primary_count_].queue_pairs[0];
}

void PathSet::order() {
  usable_.clear();
  for (Path& path : paths_) {  // the best tiers first
    if (path.health.state != PathState::Up) continue;
    if (usable_.empty()) note_tier(path);
    if (path.tier == tier_) usable_.push_back(&path);
  }
  if (has_carried_) number_keys();
  // The path that leads over other hosts is the last of its tier.
  const bool detour = has_beside_ && usable_count() > 1 && usable_.back()->ends.relayed;
  express_count_ = usable_count() - (detour ? 1 : 0);
  if (link_.identity().role == LinkRole::Connector) bulk_.assign(usable_);
  shares_.assign(usable_, bulk_.each());
  note_written_rails();
}

// Notes that the tier of this path carries the link from now on.
void PathSet::note_tier(const Path& path) noexcept {
  tier_ = path.tier;
  const auto is_of_it = [this](const Path& each) { return each.tier == tier_; };
  const auto first = std::find_if(paths_.begin(), paths_.end(), is_of_it);
  first_of_tier_ = first->index;
  tier_size_ = static_cast<std::uint32_t>(std::count_if(first, paths_.end(), is_of_it));
  has_carried_ = true;
}

void PathSet::number_keys() noexcept {
  const bool connects = link_.identity().role == LinkRole::Connector;
  const auto rail_of = [connects](const Path& path) {
    return connects ? path.ends.peer_rail : path.rail;
  };
  std::uint32_t card = 0;
  for (const Path& path : of_tier()) card += cards.of(rail_of(path));
  const Path& first = (*this)[first_of_tier_];  // whose rails may have been named anew
  key_rail_ = first.rail;
  key_set_ = of_card(first.ends.is_place() ? relayed_key_set(rail_of(first)) : tier_, card);
}

namespace {
bool is_away(PathState state) noexcept {
  return state == PathState::Quarantined || state == PathState::Down;
}
}  // namespace

void PathSet::set_state(Path& path, PathState state) noexcept {
  DCHECK(loop_.held());
  const bool was_away = is_away(path.health.state);
  path.health.state = state;
  if (was_away && !is_away(state)) away_.fetch_sub(1, std::memory_order_release);
  if (!was_away && is_away(state)) away_.fetch_add(1, std::memory_order_release);
}

bool PathSet::fencing() const noexcept {
  return std::any_of(paths_.begin(), paths_.end(),
                     [](const Path& path) { return path.health.state == PathState::Quarantined; });
}

void PathSet::call(Path& path) {
  DCHECK(path.health.state == PathState::Standby);
  set_state(path, PathState::Down);
}

void PathSet::let_stand_by(Path& path) noexcept {
  DCHECK(path.health.state == PathState::Down);
  DCHECK(path.tier != 0 || path.ends.relayed);
  path.stop();
  destroy(path);
  set_state(path, PathState::Standby);
  leave_idle_rails();
}

// Leaves the rails of tiers that rest. What is registered there stays; what NCCL registers from now
// on comes there when a path is opened, so NCCL waits for no card that nothing goes over.
void PathSet::leave_idle_rails() noexcept {
  const auto is_idle = [this](const Path& path) {
    return std::all_of(paths_.begin(), paths_.end(), [&path](const Path& each) {
      return each.tier != path.tier || each.health.state == PathState::Standby;
    });
  };
  const auto rests = [&](std::uint32_t rail) {
    return std::all_of(paths_.begin(), paths_.end(),
                       [&](const Path& path) { return path.rail != rail || is_idle(path); });
  };
  for (const std::uint32_t rail : rails_) {
    if (!rests(rail)) continue;
    link_.channels().for_each([&](const Channel& channel) {
      for (const auto& [region, uses] : channel.regions)
        loop_.registrations->rest(*region, rail, uses);
    });
  }
  std::erase_if(rails_, rests);
}

// Drains only the queues of its own queue pairs: a context of many peers has many queues.
void PathSet::drain_completions() noexcept {
  DCHECK(loop_.held());
  for (const Path& path : paths_) path.device->drain(path.queue_pairs);
}

std::vector<std::uint64_t> PathSet::signs_of_peer() {
  drain_completions();
  std::vector<std::uint64_t> signs(paths_.size());
  for (const Path& path : paths_) {
    if (path.health.state != PathState::Up) continue;
    std::uint64_t& of_path = signs[path.index];
    of_path = 1;
    for (const auto& queue_pair : path.queue_pairs) of_path += queue_pair->signs_of_peer();
    path.queue_pairs[0]->ask_answer();
  }
  return signs;
}

void PathSet::provide_queue_pairs(Path& path) { provide(path, 1 + policy_.qps); }

void PathSet::provide(Path& path, std::uint32_t count) {
  const ProgressLoop::Guard guard(loop_);
  path.queue_pairs.reserve(1 + policy_.qps);  // late ones join without asking for memory
  while (path.queue_pairs.size() < count) {
    const auto index = static_cast<std::uint32_t>(path.queue_pairs.size());
    path.queue_pairs.push_back(new_queue_pair(link_, path, index));
    if (path.health.state != PathState::Up) path.queue_pairs.back()->renew();
  }
}

Status PathSet::make(Path& path, const Making& making) {
  for (const auto& queue_pair : making.late ? path.late : path.queue_pairs) {
    if (making.abandoned != nullptr && making.abandoned->load(std::memory_order_relaxed))
      return Errc::PeerClosed;
    if (const Status status = path.device->create(
            *queue_pair, {.policy = &policy_, .loop = &loop_, .relayed = path.ends.relayed});
        !status.ok())
      return status;
  }
  const ProgressLoop::Guard guard(loop_);
  note_written_rails();
  std::size_t all = 0;
  for (const auto& each : loop_.devices) all += each->queue_pair_count();
  loop_.reserve(all);
  return {};
}

void PathSet::destroy(Path& path) noexcept {
  DCHECK(loop_.held());
  DCHECK(path.health.state != PathState::Up);
  for (const auto& queue_pair : path.queue_pairs) {
    queue_pair->add_to(&path.past);
    loop_.forget(*queue_pair);
    path.device->destroy(*queue_pair);
    queue_pair->renew();
  }
  note_written_rails();
}

void PathSet::destroy_all() noexcept {
  DCHECK(loop_.held());
  for (Path& path : paths_) {
    link_.late().drop(path);
    for (const auto& queue_pair : path.queue_pairs) {
      loop_.forget(*queue_pair);
      path.device->destroy(*queue_pair);
    }
  }
}

}  // namespace mesh::engine
