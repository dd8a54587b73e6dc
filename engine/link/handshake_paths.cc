// Chooses the paths of a connector's link from the pairs of rails that WELCOME tells. Also has the
// queue pairs made.
#include "engine/link/acceptance.h"
#include "engine/link/context.h"
#include "engine/link/half_open.h"
#include "engine/link/handshake.h"
#include "engine/link/link.h"
#include "engine/link/link_setup.h"
#include "engine/link/path_sets.h"
#include "engine/link/reception.h"
#include "src/base/check.h"
#include "src/base/log.h"

#include <algorithm>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace mesh::engine {

std::vector<WireRail> Handshake::own_rails() const {
  std::vector<WireRail> described;
  for (const verbs::Rail& rail : link_.host().rails()) described.push_back(describe_rail(rail));
  return described;
}

bool Handshake::fits(const Welcome& body) const {
  const std::span<const verbs::Rail> rails = link_.host().rails();
  const TransferPolicy asked = policy_towards(body.site);
  const auto exists = [&](const WirePath& path) {
    return path.connector_rail < rails.size() &&
           path.connector_address < rails[path.connector_rail].gids.size() &&
           path.acceptor_rail < body.rails.size() &&
           path.acceptor_address < body.rails[path.acceptor_rail].addresses.size();
  };
  const auto valid = [&](const WirePath& path) {
    return exists(path) && path.qpn.size() == body.paths.front().qpn.size();
  };
  return is_sane(body.qps, body.rq_depth, body.slots) &&
         body.qps <= std::max(asked.qps, asked.half_qps) && body.slots <= asked.slots &&
         body.rq_depth <= asked.rq_depth &&
         std::all_of(body.paths.begin(), body.paths.end(), valid) &&
         std::all_of(body.meet.begin(), body.meet.end(), exists) &&
         std::all_of(body.standby.begin(), body.standby.end(), exists) &&
         std::all_of(body.beside.begin(), body.beside.end(), exists) &&
         (body.relayed == 0 || link_.host().relays() != nullptr) &&
         (body.beside.empty() || link_.host().options().settings.both_ways != 0) &&
         key_of(path_sets(body.meet, own_rails(), body.rails, link_.terms.asked).primary) ==
             key_of(body.paths);
}

void Handshake::foresee(const Handshake& other) {
  link_.terms.peer_rails = other.link_.terms.peer_rails;
  meet_ = other.meet_;
}

bool Handshake::knows_peer() const noexcept { return !link_.terms.peer_rails.empty(); }

PathKey Handshake::key() const { return key_for(link_.terms.asked); }

PathKey Handshake::key_for(const AskedRails& asked) const {
  CHECK(link_.connector() && knows_peer());
  return key_of(path_sets(meet_, own_rails(), link_.terms.peer_rails, asked).primary);
}

void Handshake::prove(Hello hello, std::unique_ptr<CableProofs::Question> question) {
  take_terms(hello);
  proving_ = std::make_unique<Proving>(Proving{std::move(hello), std::move(question)});
  enter(LinkState::Proving);
  link_.note_idle();
  tend_proof();
}

void Handshake::tend_proof() {
  CHECK(!link_.connector() && proving_ != nullptr);
  LinkHost& host = link_.host();
  CableProofs::Question& question = *proving_->question;
  if (keep_asking(host, proving_->hello, question)) return host.tend_at(question.due_ns());
  const std::unique_ptr<Proving> done = std::move(proving_);
  const topo::CableProof proof = host.cables()->conclude(done->hello, question);
  for (const topo::WirePair& pair : question.proof().met)
    done->hello.rails[pair.local].up = 1;  // it has come up if it was down
  Acceptance acceptance = decide(host, done->hello, &proof);
  if (acceptance.refusal.empty())
    return accept(std::move(done->hello), std::move(acceptance.choice));
  refuse(host, {.connection = link_.connection(), .link = link_.identity().id},
         {.reason = Errc::Unreachable, .text = acceptance.refusal});
  link_.take_down(Errc::Unreachable);
}

bool Handshake::some_device_lags(std::span<const WirePath> paths) const {
  return std::any_of(paths.begin(), paths.end(), [this](const WirePath& path) {
    return link_.context().loop.devices[path.acceptor_rail]->destroying() >= kDestroyingMax;
  });
}

// Ends the link before it has queue pairs. The connector dials anew.
void Handshake::turn_away() {
  LinkHost& host = link_.host();
  const std::string text =
      fmt::format("host {}: its device has still to destroy {} queue pairs of other links",
                  host.options().provider->host_name(), kDestroyingMax);
  if (host.unauthenticated_lines().take(host.now_ns()))
    LOG_INFO("{}: told to dial again later: {}{}", link_.connection_name(), text,
             host.unauthenticated_lines().rest());
  link_.send(Refuse{.reason = Errc::Exhausted, .text = text});
  link_.take_down(Errc::Exhausted);
}

// Orders the queue pairs of the link's primary paths.
BringUp::Order Handshake::to_make() const {
  BringUp::Order order{.settings = link_.settings()};
  if (link_.connector()) order.window_bytes = window_bytes();
  order.has_records = !link_.connector();
  for (std::uint32_t i = 0; i < attached_count(); ++i) order.makes.push_back(i);
  // A rail that has no probes carries no path whose rails are named later (RelayedPaths::may_use).
  if (names_rails(link_.peer_link().paths()))
    for (const auto& device : link_.context().loop.devices) order.may_probe.push_back(device.get());
  return order;
}

// Acceptor: sends WELCOME when the queue pairs are made.
void Handshake::welcome() {
  CHECK(!link_.connector() && link_.state() == LinkState::Making);
  const std::unique_ptr<Welcome> said = std::move(welcome_);
  LinkHost& host = link_.host();
  said->rails = describe_rails(*host.options().provider, host.rails());
  for (std::uint32_t i = 0; i < said->paths.size(); ++i) {
    Path& path = link_.peer_link().paths()[i];
    const WirePath ours = describe_path(path, psn_, path.device->probe_target());
    WirePath& told = said->paths[i];
    told.qpn = ours.qpn;
    told.psn = ours.psn;
    told.lid = ours.lid;
    told.counters_address = ours.counters_address;
    told.counters_rkey = ours.counters_rkey;
    told.ece = ours.ece;
  }
  enter(LinkState::AwaitAttach);
  link_.send(*said);
}

// Ends a link whose queue pairs, or the memory that they need, could not be made.
void Handshake::end_unmade() {
  const Refuse why{.reason = Errc::System,
                   .text = fmt::format("host {} could not make its queue pairs, see its log",
                                       link_.host().options().provider->host_name())};
  if (link_.connector()) {
    link_.send(why);
    fail_named(Errc::System);
  } else {
    refuse(link_.host(), {.connection = link_.connection(), .link = link_.identity().id}, why);
  }
  link_.take_down(Errc::System);
}

}  // namespace mesh::engine
