#include "engine/link/bring_up.h"

#include "engine/link/link_setup.h"
#include "src/base/check.h"
#include "src/base/log.h"
#include "src/base/own_thread.h"

#include <algorithm>
#include <exception>

namespace mesh::engine {

BringUp::~BringUp() {
  abandon();
  if (thread_.joinable()) thread_.join();
}

void BringUp::run() noexcept {
  CHECK(!over() && order_.paths.size() == order_.indices.size());
  for (std::size_t i = 0; i < order_.paths.size(); ++i) {
    Path& path = order_.link->path(order_.indices[i]);
    const PeerEnd peer{.rail = &order_.peer_rails[path.ends.peer_rail],
                       .path = &order_.paths[i],
                       .own_psn = order_.psn,
                       .abandoned = &abandoned_,
                       .again = order_.reopens};
    Status status;
    try {
      status = connect_path(path, peer, order_.settings);
    } catch (const std::exception& error) {
      LOG_WARN("{}: {}", path.name, error.what());
      status = Errc::System;
    }
    if (status.ok()) continue;
    failed_.push_back(order_.indices[i]);
    outcome_ = status.code();
    if (abandoned_.load(std::memory_order_relaxed)) break;
  }
  const bool any =
      failed_.size() < order_.paths.size() && !abandoned_.load(std::memory_order_relaxed);
  if (any) outcome_ = Errc::Ok;
  over_.store(true, std::memory_order_release);
}

void BringUp::start(ControlWaker& waker) {
  CHECK(!over() && !thread_.joinable());
  const Status started = start_own_thread(thread_, "mesh-bring-up", [this, &waker] {
    run();
    waker.wake_control();
  });
  if (started.ok()) return;
  run();  // no thread is to be had: the others wait after all
  waker.wake_control();
}

std::size_t next_in_turn(std::span<const SocketAddress> running,
                         std::span<const WaitingBringUp> waiting) {
  std::size_t best = waiting.size(), fewest = kBringUpsPerPeerMax;
  if (running.size() >= kBringUpsMax) return best;
  for (std::size_t i = 0; i < waiting.size(); ++i) {
    const auto of_peer = static_cast<std::size_t>(
        std::count_if(running.begin(), running.end(),
                      [&](const SocketAddress& each) { return each.same_host(waiting[i].peer); }));
    if (of_peer > fewest || of_peer == kBringUpsPerPeerMax) continue;
    if (of_peer == fewest && best < waiting.size() && waiting[i].asked_ns >= waiting[best].asked_ns)
      continue;
    best = i;
    fewest = of_peer;
  }
  return best;
}

}  // namespace mesh::engine
