#include "engine/half_open.h"

#include "engine/engine_impl.h"
#include "src/base/log.h"

#include <vector>

namespace mesh::engine {

namespace {

// What is waited for; null: nothing.
const char* awaited(const LinkControl& link) {
  switch (link.state) {
    case LinkState::AwaitWelcome: return "has not answered our HELLO with WELCOME";
    case LinkState::AwaitAttach: return "has not answered our WELCOME with ATTACH";
    case LinkState::Connecting: return link.bring_up && link.bring_up->running() ? "our queue pairs to it are not up" : nullptr;
    case LinkState::AwaitReady: return "has not answered our ATTACH with READY";
    case LinkState::Dialing:  // the control plane's own deadline
    case LinkState::Up:
    case LinkState::ByeSent:
    case LinkState::Down: break;
  }
  return nullptr;
}

}  // namespace

void EngineImpl::enter(LinkControl& link, LinkState state) {
  link.state = state;
  link.step_deadline_ns = clock_.now_ns() + kHandshakeStepNs;
}

void EngineImpl::tend_handshake(LinkControl& link) {
  const std::uint64_t now_ns = clock_.now_ns();
  if (const char* const what = awaited(link); what != nullptr && now_ns >= link.step_deadline_ns) {
    give_up(link, what);
    return;
  }
  const std::vector<PendingConnect*> waiting = link.waiting;
  for (PendingConnect* stage : waiting) {
    if (stage->state != StageState::Opening || now_ns < stage->deadline_ns) continue;
    LOG_WARN("peer {} ({}): has not answered our OPEN of channel {} with OPENED in {} s; the connect fails",
             link.identity.peer_host, plane_->peer_name(link.connection), stage->channel->index, kHandshakeStepNs / 1'000'000'000);
    fail_stage(*stage, Errc::Timeout);
  }
}

// True: it is being dialed again.
bool EngineImpl::say_hello_again(LinkControl& link, Errc reason) {
  if (link.state != LinkState::AwaitWelcome || reason != Errc::PeerGone || link.hello_tries >= kHelloTriesMax) return false;
  ++link.hello_tries;
  link.state = LinkState::Dialing;
  link.conversation = Conversation{};  // whoever took our HELLO has forgotten it with its connection
  link.connection = plane_->dial({.addresses = link.redial.addresses, .port = link.redial.port});
  return true;
}

void EngineImpl::give_up(LinkControl& link, const char* what) {
  const std::string text = fmt::format("{} in {} s", what, kHandshakeStepNs / 1'000'000'000);
  LOG_WARN("peer {} ({}): {}; the handshake is given up", link.identity.peer_host, plane_->peer_name(link.connection), text);
  send(link, Refuse{.reason = Errc::Timeout,
                    .text = fmt::format("host {} gives up the handshake: its peer {}", options_.provider->host_name(), text)});
  take_down(link, Errc::Timeout);
}

// A new one is about to be made.
void EngineImpl::bound_half_open() {
  std::size_t half_open = 0;
  LinkControl* oldest = nullptr;
  for (const auto& context : contexts_) {
    for (const auto& link : context->links) {
      if (link->state != LinkState::AwaitAttach) continue;
      ++half_open;
      if (oldest == nullptr || link->connection < oldest->connection) oldest = link.get();
    }
  }
  if (half_open < kHalfOpenMax) return;
  LOG_WARN("peer {} ({}): said HELLO and nothing since; it gives way, as the oldest of {}", oldest->identity.peer_host,
           plane_->peer_name(oldest->connection), half_open);
  take_down(*oldest, Errc::Exhausted);
}

}  // namespace mesh::engine
