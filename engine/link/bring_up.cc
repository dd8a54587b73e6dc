#include "engine/link/bring_up.h"

#include "engine/engine_impl.h"
#include "engine/link/link_setup.h"
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
  const Status started = start_own_thread(thread_, "mesh-bring-up", [this, &waker] {
    run();
    waker.wake_control();
  });
  if (started.ok()) return;
  run();  // no thread is to be had: the others wait after all
  waker.wake_control();
}

// The job's setting goes before the communicator's wish, as in NCCL's own transport.
Settings EngineImpl::settings_of(const Context& context) const {
  Settings settings = settings_;
  if (settings.traffic_class == 0 && context.options.traffic_class != kAuto)
    settings.traffic_class = context.options.traffic_class;
  return settings;
}

// down: indices of paths that the peer could not bring up.
void EngineImpl::bring_up(Link& link, const std::vector<WirePath>& paths,
                          const std::vector<std::uint8_t>& down) {
  BringUp::Order order{.link = &link.peer_link(),
                       .peer_rails = link.peer_rails,
                       .paths = {},
                       .indices = {},
                       .psn = link.psn,
                       .settings = settings_of(link.context())};
  for (std::uint32_t i = 0; i < paths.size(); ++i) {
    if (std::find(down.begin(), down.end(), i) != down.end()) continue;
    order.paths.push_back(paths[i]);
    order.indices.push_back(i);
  }
  enter(link, LinkState::Connecting);
  begin_bring_up(link, std::move(order));
}

void EngineImpl::begin_bring_up(Link& link, BringUp::Order order) {
  order.asked_ns = clock_.now_ns();
  link.bring_up = std::make_unique<BringUp>(std::move(order));
  if (options_.threading == Threading::Manual) link.bring_up->run();
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

// What waits for a thread is looked at again when one ends, which wakes the control thread.
void EngineImpl::start_bring_ups() {
  std::vector<SocketAddress> running;
  std::vector<WaitingBringUp> waiting;
  std::vector<Link*> links;
  for (const auto& context : contexts_) {
    for (const auto& link : context->links) {
      if (!link->bring_up || link->bring_up->over()) continue;
      if (link->bring_up->running()) {
        running.push_back(link->source);
      } else {
        waiting.push_back({.peer = link->source, .asked_ns = link->bring_up->asked_ns()});
        links.push_back(link.get());
      }
    }
  }
  for (std::size_t next = next_in_turn(running, waiting); next < waiting.size();
       next = next_in_turn(running, waiting)) {
    Link& link = *links[next];
    if (link.state() == LinkState::Connecting)
      enter(link, link.state());  // the wait for a thread was not the peer's
    link.bring_up->start(*this);
    running.push_back(link.source);
    links.erase(links.begin() + static_cast<std::ptrdiff_t>(next));
    waiting.erase(waiting.begin() + static_cast<std::ptrdiff_t>(next));
  }
}

void EngineImpl::tend_bring_up(Link& link) {
  if (!link.bring_up || !link.bring_up->over()) return;
  const std::unique_ptr<BringUp> done = std::move(link.bring_up);
  if (link.state() == LinkState::Down) {
    const ProgressLoop::Guard guard(link.context().loop);
    link.end_queue_pairs();  // taken down meanwhile
  } else if (done->reopens()) {
    reopen_risen(link, *done);
  } else if (done->outcome() != Errc::Ok) {
    const ProgressLoop::Guard guard(link.context().loop);
    link.peer_link().fail(done->outcome(), "");
  } else if (link.connector()) {
    attach(link, *done);
  } else {
    ready(link, *done);
  }
}

// Those of our queue pairs that the connector tells the peer, with the words where it counts our
// announcements.
WirePath EngineImpl::offer_path(Link& link, std::uint32_t index, std::uint32_t psn) {
  const std::uint32_t words_per_path = 1 + link.peer_link().policy().qps;
  auto* const words =
      reinterpret_cast<std::uint64_t*>(link.counters.memory) + std::size_t{index} * words_per_path;
  Path& path = link.peer_link().path(index);
  for (std::uint32_t qp = 0; qp < words_per_path; ++qp) {
    words[qp] = 0;  // nobody writes there: the path's former queue pairs are fenced
    path.queue_pairs[qp]->set_window_word(words + qp);
  }
  return describe_path(
      path, psn,
      {.address = reinterpret_cast<std::uint64_t>(words), .rkey = link.counters.rkeys[index]});
}

void EngineImpl::attach(Link& link, const BringUp& done) {
  Attach attach;
  for (std::uint32_t i = 0; i < link.peer_link().path_count(); ++i)
    attach.paths.push_back(offer_path(link, i, link.psn));
  for (const std::uint32_t path : done.failed())
    attach.down.push_back(static_cast<std::uint8_t>(path));
  leave_out(link, attach.down);
  enter(link, LinkState::AwaitReady);
  link.send(attach);
}

void EngineImpl::set_peer_windows(Path& path, const WirePath& peer) {
  for (std::uint32_t qp = 0; qp < path.queue_pairs.size(); ++qp) {
    path.queue_pairs[qp]->set_peer_window(
        {.address = peer.counters_address + qp * sizeof(std::uint64_t),
         .rkey = peer.counters_rkey});
  }
}

void EngineImpl::ready(Link& link, const BringUp& done) {
  std::vector<std::uint8_t> down;
  std::size_t next = 0;
  for (std::uint32_t i = 0; i < link.peer_link().path_count(); ++i) {
    const bool tried = next < done.indices().size() && done.indices()[next] == i;
    if (tried) set_peer_windows(link.peer_link().path(i), done.paths()[next++]);
    if (!tried || std::find(done.failed().begin(), done.failed().end(), i) != done.failed().end()) {
      down.push_back(static_cast<std::uint8_t>(i));
    }
  }
  leave_out(link, down);
  enter(link, LinkState::Up);
  link.send(Ready{.down = down});
}

// Paths that one side could not bring up: the link does without them until they can be opened.
void EngineImpl::leave_out(Link& link, const std::vector<std::uint8_t>& down) {
  const ProgressLoop::Guard guard(link.context().loop);
  for (const std::uint8_t index : down) {
    Path& path = link.peer_link().path(index);
    if (path.health.state == PathState::Down) continue;
    link.peer_link().leave_out(path, "it could not be brought up");
    const std::uint64_t now_ns = clock_.now_ns();
    link.repairs[index] = {
        .at_ns = now_ns + kFirstBackoffNs, .backoff_ns = kFirstBackoffNs, .lost_at_ns = now_ns};
    LOG_WARN("peer {}: path {} could not be brought up; {} of {} paths carry on",
             link.identity().peer_host, path.name, link.peer_link().usable_count(),
             link.peer_link().path_count());
  }
}

}  // namespace mesh::engine
