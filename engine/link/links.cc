#include "engine/link/links.h"

#include "engine/data/flusher.h"
#include "engine/link/bring_up.h"
#include "engine/link/context.h"
#include "engine/link/link.h"
#include "engine/link/link_setup.h"
#include "src/base/check.h"
#include "src/base/random.h"
#include "src/base/timeouts.h"

#include <algorithm>
#include <cstddef>

namespace mesh::engine {

namespace {
// Up to this number, every pass looks at all links, because that costs little.
constexpr std::size_t kSweepAlways = 64;
}  // namespace

template <typename Visit>
void Links::for_each(Visit&& visit) const {
  for (const auto& context : contexts_) {
    for (const auto& link : context->links) visit(*link);
  }
}

// Searches from the newest link on, because frames mostly concern links that come up.
template <typename Matches>
Link* Links::last_of(Matches&& matches) const {
  for (auto context = contexts_.rbegin(); context != contexts_.rend(); ++context) {
    const auto& links = (*context)->links;
    const auto found = std::find_if(links.rbegin(), links.rend(),
                                    [&matches](const auto& link) { return matches(*link); });
    if (found != links.rend()) return found->get();
  }
  return nullptr;
}

// Finds a link by the index, or if that is not complete by a search through all links.
template <typename Key, typename Matches>
Link* Links::find(const Key& key, const Matches& matches) const {
  const LinkIndex& index = host_.index();
  Link* const found = index.find(key);
  if (found == nullptr || !matches(*found)) return index.complete() ? nullptr : last_of(matches);
  return found;
}

// ---- Finding one.

Context* Links::context_of(const Id128& id) const {
  const auto found = std::find_if(contexts_.begin(), contexts_.end(),
                                  [&id](const auto& each) { return same_secret(each->id, id); });
  return found == contexts_.end() ? nullptr : found->get();
}

Link* Links::of_connection(ConnectionId id) const {
  return find(id, [id](const Link& link) { return link.connection() == id; });
}

Link* Links::of_redial(ConnectionId id) const {
  return find(id, [id](const Link& link) { return link.redial().connection() == id; });
}

Link* Links::claimed(LinkRole role, const Id128& id, const LinkClaim& claim) const {
  return last_of([&](const Link& link) {
    const LinkClaim ours = link.redial().claim();
    return link.identity().role == role && same_secret(link.identity().id, id) &&
           same_secret(ours.connector_context, claim.connector_context) &&
           same_secret(ours.acceptor_context, claim.acceptor_context);
  });
}

Link& Links::of_channel(const Channel& channel) const {
  Link* const found = find(channel.link, [&channel](const Link& link) {
    return link.has_peer_link() && &link.peer_link() == &channel.link;
  });
  CHECK(found != nullptr);  // every channel belongs to a link
  return *found;
}

// ---- All of them.

std::size_t Links::count() const noexcept {
  std::size_t count = 0;
  for (const auto& context : contexts_) count += context->links.size();
  return count;
}

std::vector<WireHost> Links::hosts() const {
  std::vector<WireHost> hosts;
  for_each([&hosts](const Link& link) {
    const bool takes_part = link.state() == LinkState::Up && link.terms.peer_ticket != Id128{} &&
                            !link.terms.crossing.apart();
    if (!takes_part) return;
    WireHost host = link.peer_as_host();
    if (!host.addresses.empty())
      hosts.push_back(std::move(host));  // without addresses nobody could dial it
  });
  return hosts;
}

Links::Sweep Links::next_sweep(std::uint64_t due_ns) const {
  // With Threading::Manual only the caller makes passes, and each pass does all that can be done.
  if (host_.options().threading == Threading::Manual) return Sweep::All;
  const bool due = host_.now_ns() >= std::min(due_ns, next_sweep_ns());
  return due || count() <= kSweepAlways ? Sweep::All : Sweep::Restless;
}

std::uint64_t Links::next_sweep_ns() const { return swept_ns_ + count() * kSweepPerLinkNs; }

bool Links::tend(Sweep sweep) {
  if (sweep == Sweep::All)
    swept_ns_ = host_.now_ns();
  else
    host_.tend_at(next_sweep_ns());
  bool again = false;
  for (const auto& context : contexts_) {
    context->rising.touch_those_that_are_over();
    again |= tend_context(*context, sweep);
  }
  start_bring_ups();
  return again;
}

bool Links::tend_context(Context& context, Sweep sweep) const {
  context.loop.take_wishing([this](const PeerLink& wishing) {
    Link* const found = find(wishing, [&wishing](const Link& link) {
      return link.has_peer_link() && &link.peer_link() == &wishing;
    });
    if (found != nullptr) found->touch();
  });
  const bool all = context.loop.take_trouble() || sweep == Sweep::All;
  const auto count = [&] { return all ? context.links.size() : context.restless.count(); };
  bool again = false, over = false;
  // A link that fails may add another one, for the connects that do not fail with it.
  for (std::size_t i = 0; i < count(); ++i) {
    Link& link = all ? *context.links[i] : context.restless[i];
    again |= link.tend();
    over |= link.state() == LinkState::Down;
  }
  if (over) context.reap_links();
  context.restless.drop_if([](Link& link) { return link.leave_list(); });
  return again;
}

bool Links::bring_ups_changed() const noexcept {
  return std::any_of(contexts_.begin(), contexts_.end(),
                     [](const auto& context) { return context->rising.changed(); });
}

// Starts bring-ups that wait for a thread. Called again when one ends and wakes this thread.
void Links::start_bring_ups() {
  if (!bring_ups_changed()) return;
  std::vector<BringUpTurn> running, turns;
  std::vector<BringUp*> waiting;
  for (const auto& context : contexts_) {
    for (const BringUp* const each : context->rising.running())
      if (!each->over()) running.push_back(each->turn());  // it may end at any moment
    for (BringUp* const each : context->rising.waiting()) {
      if (each->over()) continue;  // it ran at once, without a thread
      turns.push_back(each->turn());
      waiting.push_back(each);
    }
  }
  for (std::size_t next = next_in_turn(running, turns); next < turns.size();
       next = next_in_turn(running, turns)) {
    waiting[next]->link().start(*waiting[next]);
    running.push_back(turns[next]);
    waiting.erase(waiting.begin() + static_cast<std::ptrdiff_t>(next));
    turns.erase(turns.begin() + static_cast<std::ptrdiff_t>(next));
  }
  for (const auto& context : contexts_) context->rising.settle();
}

template <typename Act>
void Links::for_each_path(Act&& act) {
  for_each([&](Link& link) {
    if (link.state() != LinkState::Up) return;
    PeerLink& peer_link = link.peer_link();
    const ProgressLoop::Guard guard(link.context().loop);
    for (Path& path : peer_link.paths().all()) act(link, path);
  });
}

bool Links::on_port_up(std::uint32_t rail) {
  bool in_use = false;
  for_each_path([&](Link& link, const Path& path) {
    in_use |= path.rail == rail && path.health.state != PathState::Standby;
    if (path.rail == rail || path.ends.is_place()) link.repair().try_now(path.index);
  });
  for_each([rail](Link& link) { link.tell_port_up(rail); });
  return in_use;
}

bool Links::on_rail_away(std::uint32_t rail, const std::string& cause) {
  bool in_use = false;
  for_each_path([&](Link& link, Path& path) {
    if (path.rail != rail) return;
    in_use |= path.health.state != PathState::Standby;
    link.peer_link().quarantine(path, cause);
  });
  for_each([this, rail](Link& link) { link.redial().on_port_away(host_.rails()[rail]); });
  return in_use;
}

void Links::leave_card(std::uint32_t rail, const std::string& cause, Leave leave) {
  for (const auto& context : contexts_) {
    DeviceContext& device = *context->loop.devices[rail];
    if (leave == Leave::All) device.leave();
    if (device.gone()) context->loop.flusher->leave(rail);
  }
  for_each_path([&](Link& link, Path& path) {
    if (path.rail == rail && path.device->gone()) link.peer_link().quarantine(path, cause);
  });
}

void Links::ask_cables() {
  for_each([](Link& link) { link.ask_cables(); });
}

void Links::on_queue_failed(std::uint32_t rail, const ibv_cq* queue) {
  for (const auto& context : contexts_) {
    const ProgressLoop::Guard guard(context->loop);
    context->loop.devices[rail]->on_queue_failed(queue, context->loop);
  }
}

void Links::on_lid_change(std::uint32_t rail, std::uint16_t lid) {
  for_each_path([rail, lid](Link& link, Path& path) {
    if (path.rail == rail && path.own_lid != lid)
      link.peer_link().quarantine(path, "our port has another LID");
  });
}

void Links::on_speed_change(std::uint32_t rail) {
  for_each_path([rail](Link& link, Path& path) {
    if (path.rail != rail || path.health.state != PathState::Up) return;
    take_port_speed(link.peer_link(), path);
    set_inflight(path, link.terms.crossing, link.peer_link().policy());
  });
}

}  // namespace mesh::engine
