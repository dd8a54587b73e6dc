#include "engine/link/acceptance.h"

#include "engine/link/link_host.h"
#include "engine/link/link_setup.h"
#include "engine/link/misfit_lines.h"
#include "src/base/log.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace mesh::engine {

OwnRails own_rails(LinkHost& host, const std::vector<WireRail>& rails) {
  return {rails, host.options().settings.site,
          host.cables() == nullptr ? 0 : host.cables()->shared(),
          host.options().provider->host_id()};
}

namespace {
void tell_misfits(LinkHost& host, const Hello& hello, const std::vector<MisfitLine>& lines) {
  for (const MisfitLine& line : lines) {
    const std::string text = line.text();
    if (host.peer_log().is_news(hello.host, text))
      MESH_LOG(line.sure ? LogLevel::Warn : LogLevel::Info, "peer {}: {}", hello.host, text);
  }
}

bool tells_places(const WireProof& proof) {
  return std::any_of(proof.places.begin(), proof.places.end(),
                     [](const WirePlace& place) { return place.port != 0; });
}
}  // namespace

Acceptance decide(LinkHost& host, const Hello& hello, const topo::CableProof* proof) {
  verbs::Provider& provider = *host.options().provider;
  const std::string& name = provider.host_name();
  const std::vector<WireRail> rails = describe_rails(provider, host.rails());
  const auto route = [&](std::size_t rail, std::size_t address, const WireAddress& to) {
    return provider.route(host.rails()[rail].gids[address], gid_of(to));
  };
  const OwnRails own = own_rails(host, rails);
  Acceptance result{.choice = {}, .refusal = site_refusal(name, own.site, hello.host, hello.site)};
  if (!result.refusal.empty()) return result;
  PathChoice& choice = result.choice = choose_paths(hello, own, route, proof);
  tell_misfits(host, hello, misfit_lines(hello, own, choice, name));
  const bool relays = host.relays() != nullptr && hello.ticket != Id128{};
  if (relays) add_relayed(hello, own, host.options().settings, &choice);
  if (tells_places(hello.proof)) add_by_proof(hello, own, &choice);
  if (choice.meet.empty()) {
    choice.no_path = why_no_path(hello, own, choice, name);
    if (!relays) {
      const std::string off =
          fmt::format("NCCL_MESH_RELAY=0 on host {} lets no host between carry messages",
                      host.relays() == nullptr ? name : hello.host);
      // The remedy stands in the first 160 columns, which is what NCCL's log shows in one line.
      choice.no_path = tells_misfit(choice.no_path) ? fmt::format("{}; {}", choice.no_path, off)
                                                    : fmt::format("{}; {}", off, choice.no_path);
    }
  } else if (choice.sets.primary.empty()) {
    result.refusal = why_no_path(hello, own, choice, name);
  }
  return result;
}

namespace {
// Returns true if no rails meet now, and some may when their ports come up.
bool all_are_down(const DoubtfulRails& doubtful, const Hello& hello, const OwnRails& own) {
  if (!doubtful.up.empty() || doubtful.down.empty()) return false;
  const auto no_router = [](std::size_t, std::size_t, const WireAddress&) {
    return verbs::Route{.kind = verbs::RouteKind::None, .netdev = {}};
  };
  const std::vector<WirePath> meet = choose_paths(hello, own, no_router).meet;
  return std::none_of(meet.begin(), meet.end(), [&](const WirePath& pair) {
    return hello.rails[pair.connector_rail].up != 0 && own.rails[pair.acceptor_rail].up != 0;
  });
}
}  // namespace

Wires look_at_wires(LinkHost& host, const Hello& hello) {
  CableProofs* const cables = host.cables();
  if (cables == nullptr || hello.proof.places.empty()) return {};
  const std::vector<WireRail> rails = describe_rails(*host.options().provider, host.rails());
  const OwnRails own = own_rails(host, rails);
  const DoubtfulRails doubtful = doubtful_rails(hello, own);
  if (doubtful.empty()) return {};
  const topo::CableProof* const known =
      doubtful.up.empty() ? nullptr : cables->known(hello, doubtful.up);
  if (known != nullptr) return {.known = known, .question = nullptr};
  if (!doubtful.up.empty() || all_are_down(doubtful, hello, own)) {
    if (auto question = cables->ask(hello, doubtful); question != nullptr)
      return {.known = nullptr, .question = std::move(question)};
  }
  // Ports that are down cannot be asked, and come up later.
  const auto is_down = [](const WireRail& rail) { return rail.up == 0; };
  const bool any_down = std::any_of(rails.begin(), rails.end(), is_down) ||
                        std::any_of(hello.rails.begin(), hello.rails.end(), is_down);
  return {.known = any_down ? cables->former(hello) : nullptr, .question = nullptr};
}

bool keep_asking(LinkHost& host, const Hello& hello, CableProofs::Question& question) {
  if (question.may_be_stale(host.now_ns())) {
    const std::vector<WireRail> rails = describe_rails(*host.options().provider, host.rails());
    question.begin(hello, doubtful_rails(hello, own_rails(host, rails)));
  }
  return question.tend(host.now_ns());
}

}  // namespace mesh::engine
