#include "engine/bring_up.h"

#include "engine/engine_impl.h"
#include "engine/link_setup.h"
#include "src/base/log.h"

#include <pthread.h>
#include <algorithm>
#include <csignal>
#include <system_error>

namespace mesh::engine {

BringUp::~BringUp() {
  abandon();
  if (thread_.joinable()) thread_.join();
}

void BringUp::run() noexcept {
  for (std::uint32_t i = 0; i < order_.paths.size() && outcome_ == Errc::Ok; ++i) {
    Path& path = order_.link->path(i);
    const PeerEnd peer{
        .rail = &order_.peer_rails[path.ends.peer_rail], .path = &order_.paths[i], .own_psn = order_.psn, .abandoned = &abandoned_};
    outcome_ = connect_path(path, peer, order_.settings).code();
  }
  over_.store(true, std::memory_order_release);
}

void BringUp::start(ControlWaker& waker) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // NCCL's thread may be the one that starts it
  try {
    thread_ = std::thread([this, &waker] {
      pthread_setname_np(pthread_self(), "mesh-bring-up");
      run();
      waker.wake_control();
    });
  } catch (const std::system_error&) {
    run();  // no thread is to be had: the others wait after all
    waker.wake_control();
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void EngineImpl::bring_up(LinkControl& link, const std::vector<WirePath>& paths) {
  // The job's setting goes before the communicator's wish, as in NCCL's own transport.
  Settings settings = settings_;
  if (settings.traffic_class == 0 && link.context.options.traffic_class != kAuto) {
    settings.traffic_class = link.context.options.traffic_class;
  }
  link.state = LinkState::Connecting;
  link.bring_up = std::make_unique<BringUp>(BringUp::Order{
      .link = link.link.get(), .peer_rails = link.peer_rails, .paths = paths, .psn = link.psn, .settings = settings});
  if (options_.threading == Threading::Manual) link.bring_up->run();
}

int EngineImpl::bring_ups_running() const {
  int running = 0;
  for (const auto& context : contexts_) {
    for (const auto& link : context->links) running += link->bring_up && link->bring_up->running() ? 1 : 0;
  }
  return running;
}

// What waits for a thread is looked at again when one ends, which wakes the control thread.
void EngineImpl::tend_bring_up(LinkControl& link) {
  if (!link.bring_up || link.bring_up->running()) return;
  if (!link.bring_up->over()) {
    if (bring_ups_running() < kBringUpsMax) link.bring_up->start(*this);
    return;
  }
  const std::unique_ptr<BringUp> done = std::move(link.bring_up);
  if (link.state == LinkState::Down) {
    const ProgressLoop::Guard guard(link.context.loop);
    end_queue_pairs(*link.link);  // taken down meanwhile
  } else if (done->outcome() != Errc::Ok) {
    const ProgressLoop::Guard guard(link.context.loop);
    link.link->fail(done->outcome(), "");
  } else if (link.connector()) {
    attach(link, done->paths());
  } else {
    ready(link, done->paths());
  }
}

void EngineImpl::attach(LinkControl& link, const std::vector<WirePath>& paths) {
  const std::uint32_t words_per_path = 1 + link.link->policy().qps;
  Attach attach;
  for (std::uint32_t i = 0; i < paths.size(); ++i) {
    auto* const words = reinterpret_cast<std::uint64_t*>(link.counters.memory) + i * words_per_path;
    Path& path = link.link->path(i);
    for (std::uint32_t qp = 0; qp < words_per_path; ++qp) path.queue_pairs[qp]->set_window_word(words + qp);
    WirePath ours =
        describe_path(path, link.psn, {.address = reinterpret_cast<std::uint64_t>(words), .rkey = link.counters.rkeys[i]});
    ours.connector_rail = paths[i].connector_rail;
    ours.connector_address = paths[i].connector_address;
    ours.acceptor_rail = paths[i].acceptor_rail;
    ours.acceptor_address = paths[i].acceptor_address;
    attach.paths.push_back(std::move(ours));
  }
  link.state = LinkState::AwaitReady;
  send(link, attach);
}

void EngineImpl::ready(LinkControl& link, const std::vector<WirePath>& paths) {
  for (std::uint32_t i = 0; i < paths.size(); ++i) {
    Path& path = link.link->path(i);
    for (std::uint32_t qp = 0; qp < path.queue_pairs.size(); ++qp) {
      path.queue_pairs[qp]->set_peer_window(
          {.address = paths[i].counters_address + qp * sizeof(std::uint64_t), .rkey = paths[i].counters_rkey});
    }
  }
  link.state = LinkState::Up;
  announce_link(link);
  send(link, Ready{});
}

// Holding the token.
void EngineImpl::end_queue_pairs(PeerLink& link) {
  link.stop_queue_pairs();
  link.destroy_queue_pairs();
}

}  // namespace mesh::engine
