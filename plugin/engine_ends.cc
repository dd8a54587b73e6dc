#include "plugin/engine_ends.h"

#include "src/base/check.h"
#include "src/base/own_thread.h"
#include "src/base/timeouts.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace mesh::plugin {

namespace {
constexpr std::chrono::milliseconds kPatience{kEndToLeftMs};
}  // namespace

void EngineEnds::reserve() {
  const Lock lock(mutex_);
  drop_those_over();
  ending_.reserve(ending_.size() + 1);
}

void EngineEnds::begin(std::shared_ptr<EngineLife> life) noexcept {
  const Lock lock(mutex_);
  CHECK(ending_.size() < ending_.capacity());
  ending_.push_back(std::move(life));
}

void EngineEnds::set(EngineLife& life, EndStep step) noexcept {
  const Lock lock(mutex_);
  life.step = step;
  changed_.notify_all();
}

void EngineEnds::run(EngineLife& life) noexcept {
  if (life.stats != nullptr && !life.stats->finish()) {
    const Lock lock(mutex_);
    life.page_hangs = true;
  }
  set(life, life.engine->waits_for_peers() ? EndStep::Peers : EndStep::Devices);
  life.engine->end();
  set(life, EndStep::Devices);
  life.engine.reset();
  life.provider.reset();
  set(life, EndStep::Page);
  life.stats.reset();
  set(life, EndStep::Over);
}

void EngineEnds::settle(EngineLife& life) noexcept {
  Lock lock(mutex_);
  if (!start_own_thread(life.thread, "mesh-goodbye", [this, &life] { run(life); }).ok()) {
    lock.unlock();
    run(life);
    lock.lock();
  }
  changed_.wait(lock, [&life] { return life.step != EndStep::None; });
  changed_.wait_for(lock, kPatience,
                    [&life] { return life.step == EndStep::Peers || life.step == EndStep::Over; });
  drop_those_over();
}

bool EngineEnds::all_reached(EndStep step) const noexcept {
  return std::all_of(ending_.begin(), ending_.end(),
                     [step](const auto& life) { return life->step >= step; });
}

void EngineEnds::wait_for_peers() noexcept {
  Lock lock(mutex_);
  changed_.wait(lock, [this] {
    drop_those_over();
    return all_reached(EndStep::Devices) && ending_.size() < kEnginesEndingMax;
  });
}

void EngineEnds::wait_at_exit() noexcept {
  Lock lock(mutex_);
  changed_.wait(lock, [this] { return all_reached(EndStep::Devices); });
  changed_.wait_for(lock, kPatience, [this] { return all_reached(EndStep::Over); });
  drop_those_over();
}

bool EngineEnds::any() noexcept {
  const Lock lock(mutex_);
  drop_those_over();
  return !ending_.empty();
}

bool EngineEnds::page_hangs() noexcept {
  const Lock lock(mutex_);
  return std::any_of(ending_.begin(), ending_.end(), [](const auto& life) {
    return life->page_hangs && life->step != EndStep::Over;
  });
}

// Their threads have nothing left to do but to return.
void EngineEnds::drop_those_over() noexcept {
  std::erase_if(ending_, [](const auto& life) {
    if (life->step != EndStep::Over) return false;
    if (life->thread.joinable()) life->thread.join();
    return true;
  });
}

}  // namespace mesh::plugin
