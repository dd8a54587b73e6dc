#include "engine/link/context.h"

#include "src/base/check.h"
#include "src/base/log.h"
#include "src/base/random.h"

#include <algorithm>
#include <memory>

namespace mesh {

using engine::Link;
using engine::LinkState;

// ---- Its links.

template <typename Matches>
Link* Context::usable_connector(const engine::Id128& peer_context, const Matches& matches) const {
  const auto found = std::find_if(links.begin(), links.end(), [&](const auto& link) {
    return link->connector() && link->identity().peer_context == peer_context && link->usable() &&
           link->failure() == Errc::Ok && matches(*link);
  });
  return found == links.end() ? nullptr : found->get();
}

namespace {
bool knows_peer(const Link& link) { return link.handshake().knows_peer(); }
}  // namespace

// The first WELCOME tells a peer's rails: until then all connects to it wait for one handshake.
Link* Context::connector_to(const engine::Id128& peer_context,
                            const engine::AskedRails& asked) const {
  Link* const any = usable_connector(peer_context, [](const Link&) { return true; });
  if (any == nullptr || usable_connector(peer_context, knows_peer) == nullptr) return any;
  // Each link decides by the pairs of its own WELCOME: ports and routes change between two of
  // these.
  return usable_connector(peer_context, [&asked](const Link& link) {
    return knows_peer(link) && link.handshake().key_for(asked) == link.handshake().key();
  });
}

Link& Context::add_connector(const engine::Id128& peer_context, const engine::AskedRails& asked) {
  const Link* const known = usable_connector(peer_context, knows_peer);
  Link& link = *links.emplace_back(
      std::make_unique<Link>(host_, *this,
                             engine::LinkIdentity{.role = engine::LinkRole::Connector,
                                                  .id = random_id(),
                                                  .peer_context = peer_context,
                                                  .peer_host = "not yet known"}));
  link.terms.asked = asked;
  if (known != nullptr) link.handshake().foresee(known->handshake());
  // Taken now, because NCCL may write another class into the communicator at any time.
  link.terms.marking = engine::marking_of(host_.options().settings, options.traffic_class);
  return link;
}

Link& Context::add_acceptor(const engine::Id128& link, const engine::Hello& hello) {
  return *links.emplace_back(
      std::make_unique<Link>(host_, *this,
                             engine::LinkIdentity{.role = engine::LinkRole::Acceptor,
                                                  .id = link,
                                                  .peer_context = hello.connector_context,
                                                  .peer_host = hello.host}));
}

// Searches the list of restless links, on which a link that is down stays until it is destroyed.
void Context::reap_links() {
  for (std::size_t i = restless.count(); i-- > 0;) {
    const Link& link = restless[i];
    if (!link.may_be_forgotten()) continue;
    host_.keep_figures(link);
    links.erase(std::find_if(links.begin(), links.end(),
                             [&link](const auto& each) { return each.get() == &link; }));
  }
}

// ---- Its listeners.

Listener* Context::listener(const engine::Id128& nonce) const noexcept {
  const auto found = std::find_if(listeners.begin(), listeners.end(), [&nonce](const auto& each) {
    return same_secret(each->nonce, nonce);
  });
  return found == listeners.end() ? nullptr : found->get();
}

void Context::name_listeners(const engine::Link& link,
                             std::span<const engine::Id128> nonces) noexcept {
  for (const engine::Id128& nonce : nonces) {
    if (Listener* const named = listener(nonce); named != nullptr) named->named(&link);
  }
}

bool Context::fail_named(const Link& link, Errc why) noexcept {
  bool any = false;
  for (const auto& each : listeners) {
    if (each->named_by != &link) continue;
    each->named_by = nullptr;
    each->refused = why;
    any = true;
  }
  return any;
}

void Context::unname_listeners(const Link& link) noexcept {
  for (const auto& each : listeners) {
    if (each->named_by == &link) each->named_by = nullptr;
  }
}

void Context::lose_named(const Link& link, Errc why, std::uint64_t until_ns) noexcept {
  for (const auto& each : listeners) {
    if (each->named_by != &link) continue;
    each->named_by = nullptr;
    each->lost = why;
    each->lost_until_ns = until_ns;
  }
}

// ---- Its end.

void Context::begin_close() {
  CHECK(closing);
  for (const auto& link : links) link->begin_close();
  host_.plane().wake();
  host_.tend_soon();
}

void Context::take_down() noexcept {
  for (const auto& link : links) link->take_down(Errc::PeerClosed);
}

bool Context::may_go(std::uint64_t now_ns) const noexcept {
  if (!lingering) return false;
  return links.empty() || (now_ns >= linger_until_ns && rising.empty() &&
                           std::none_of(links.begin(), links.end(), [](const auto& link) {
                             return link->openings().growing();
                           }));
}

void Context::cut_links() {
  if (!links.empty())
    LOG_INFO("{} peer links were not closed by their peers within 1 s and are cut", links.size());
  for (const auto& link : links) link->cut();
  for (const auto& link : links) host_.keep_figures(*link);
  links.clear();
}

void Context::wait_until_destroyed() noexcept {
  for (const auto& device : loop.devices) device->wait_until_destroyed();
}

bool Context::destroys() const noexcept {
  return std::any_of(loop.devices.begin(), loop.devices.end(),
                     [](const auto& device) { return device->destroys(); });
}

namespace engine {

void BringUps::add(BringUp& bring_up) {
  const std::size_t all = waiting_.count() + started_.count() + 1;
  waiting_.reserve_for(all);
  started_.reserve_for(all);
  waiting_.add(bring_up);
  changed_ = true;
}

void BringUps::started(BringUp& bring_up) noexcept {
  waiting_.remove(bring_up);
  started_.add(bring_up);
}

void BringUps::remove(const BringUp& bring_up) noexcept {
  waiting_.remove(bring_up);
  started_.remove(bring_up);
  changed_ = true;
}

void BringUps::touch_those_that_are_over() const noexcept {
  for (const BringUp* const bring_up : started_.span())
    if (bring_up->over()) bring_up->link().touch();
}

}  // namespace engine

}  // namespace mesh
