#include "engine/link/bring_up.h"

#include "engine/data/patient_call.h"
#include "engine/link/link.h"
#include "engine/link/link_setup.h"
#include "src/base/check.h"
#include "src/base/held_locks.h"
#include "src/base/log.h"

#include <algorithm>
#include <exception>
#include <tuple>

namespace mesh::engine {

BringUp::BringUp(Order order) : order_(std::move(order)), cards_(cards()) {
  failed_.reserve(order_.paths.size());
}

BringUp::~BringUp() {
  abandon();
  task_.wait();
}

PeerLink& BringUp::peer_link() const noexcept { return order_.link->peer_link(); }

std::uint64_t BringUp::cards() const noexcept {
  std::uint64_t cards = order_.memory == nullptr ? 0 : order_.memory->rails();
  for (const std::vector<std::uint32_t>* const paths : {&order_.makes, &order_.indices})
    for (const std::uint32_t path : *paths)
      cards |= std::uint64_t{1} << peer_link().paths()[path].rail;
  return cards;
}

BringUpTurn BringUp::turn() const {
  return {
      .peer = link().handshake().source(), .asked_ns = asked_ns(), .kind = kind(), .cards = cards_};
}

// The memory of a whole link may be on every rail.
bool BringUp::needs(const DeviceContext& device) const noexcept {
  return is_of_link() || (cards_ >> device.index() & 1) != 0;
}

// Returns true if a link comes up without this path, because the card of its rail has left. It
// joins when another card is there.
bool BringUp::may_lack(const Path& path) const noexcept {
  return is_of_link() && path.device->gone();
}

// The device may take long to register the memory of a link, too.
Status BringUp::register_memory() {
  PathSet& paths = peer_link().paths();
  for (const std::uint32_t index : order_.makes) {
    DeviceContext& device = *paths[index].device;
    const CallWatch::Call waits(device.calls, device.name(), "ibv_reg_mr");
    const Status status = device.provide_probes();
    if (!status.ok() && !may_lack(paths[index])) return status;
  }
  for (DeviceContext* const device : order_.may_probe) {
    if (device->has_probes()) continue;
    const auto provide = [device] { static_cast<void>(device->provide_probes()); };
    static_cast<void>(PatientCall::begin({*device, "ibv_reg_mr"}, provide, [] {})->wait());
  }
  LinkMemory& memory = peer_link().memory();
  if (order_.has_records) return memory.channel_memory(0).status();
  if (order_.window_bytes == 0) return {};
  Result<PeerWritable> made = memory.window_words(order_.window_bytes);
  if (made.ok()) window_words_ = std::move(*made);
  return made.status();
}

Status BringUp::make() {
  if (const Status status = register_memory(); !status.ok()) return status;
  for (const std::uint32_t index : order_.makes) {
    PathSet& paths = peer_link().paths();
    if (may_lack(paths[index])) continue;
    const Status made = paths.make(paths[index], {.abandoned = &abandoned_, .late = order_.widens});
    if (!made.ok() && may_lack(paths[index])) continue;
    if (!made.ok()) return made;
    const auto& queue_pairs = order_.widens ? paths[index].late : paths[index].queue_pairs;
    note_ece(paths[index], *queue_pairs.front());
  }
  return {};
}

Status BringUp::connect(std::size_t at) {
  if (order_.memory != nullptr) {
    if (const Status status = order_.memory->register_all(); !status.ok()) return status;
  }
  if (order_.connected) return {};
  Path& path = peer_link().paths()[order_.indices[at]];
  const PeerEnd peer{.rail = &order_.peer_rails[path.ends.peer_rail],
                     .path = &order_.paths[at],
                     .own_psn = order_.psn,
                     .abandoned = &abandoned_,
                     .again = order_.reopens,
                     .late = order_.widens};
  if (!order_.via.empty()) {
    if (const Status status = take_hop(path, order_.via.front()); !status.ok()) return status;
  }
  return connect_path(path, peer, order_.settings);
}

namespace {
// Runs a step. If no memory is left, the step fails, and the thread goes on.
template <typename Step>
Status guarded(const PeerLink& link, const Step& step) noexcept {
  try {
    return step();
  } catch (const std::exception& error) {
    LOG_WARN("peer {}: its queue pairs: {}", link.identity().peer_host, error.what());
    return Errc::System;
  }
}
}  // namespace

void BringUp::connect_all() noexcept {
  for (std::size_t i = 0; i < order_.paths.size(); ++i) {
    const Status status = guarded(peer_link(), [&] { return connect(i); });
    if (status.ok()) continue;
    failed_.push_back(order_.indices[i]);
    const Path& path = peer_link().paths()[order_.indices[i]];
    if (!abandoned()) path.device->suspect();
    if (!may_lack(path)) outcome_ = status.code();
    if (abandoned()) break;
  }
  if (failed_.size() < order_.paths.size() && !abandoned()) outcome_ = Errc::Ok;
}

void BringUp::run() noexcept {
  CHECK(!over() && order_.paths.size() == order_.indices.size());
  const Status made = guarded(peer_link(), [this] { return make(); });
  unmade_ = !made.ok();
  outcome_ = made.code();
  if (made.ok()) connect_all();
  over_.store(true, std::memory_order_release);
}

void BringUp::start(ThreadPool& pool, ControlWaker& waker) {
  CHECK(!over() && !task_.begun());
  const auto work = [this, &waker] {
    run();
    waker.wake_control();
  };
  if (pool.begin(task_, work).ok()) return;
  const WaitsUnderLocks no_thread;
  work();
}

std::size_t next_in_turn(std::span<const BringUpTurn> running,
                         std::span<const BringUpTurn> waiting) {
  std::size_t best = waiting.size();
  std::tuple<BringUpKind, std::size_t, std::uint64_t> least;
  for (std::size_t i = 0; i < waiting.size(); ++i) {
    const bool again = waiting[i].kind == BringUpKind::Again;
    std::size_t all = 0, all_again = 0, of_peer = 0, of_peer_again = 0;
    for (const BringUpTurn& each : running) {
      if ((each.cards & waiting[i].cards) == 0) continue;
      const bool same_peer = each.peer.same_host(waiting[i].peer);
      const bool each_again = each.kind == BringUpKind::Again;
      ++all;
      of_peer += same_peer;
      all_again += each_again;
      of_peer_again += same_peer && each_again;
    }
    if (all >= kBringUpsMax || of_peer >= kBringUpsPerPeerMax) continue;
    if (again && (all_again >= kReopensMax || of_peer_again >= kReopensPerPeerMax)) continue;
    const std::tuple turn{waiting[i].kind, of_peer, waiting[i].asked_ns};
    if (best < waiting.size() && turn >= least) continue;
    best = i;
    least = turn;
  }
  return best;
}

}  // namespace mesh::engine
