#include "engine/link/relay/relay_service.h"

#include "engine/control/handle.h"
#include "engine/link/link_host.h"
#include "engine/link/link_setup.h"
#include "engine/link/relay/carried.h"
#include "engine/link/relay/neighbours.h"
#include "src/base/log.h"
#include "src/base/random.h"
#include "src/base/timeouts.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

namespace mesh::engine {

namespace {
RelayedSnapshot* row_of(const Carried& carried, relay::Side from, RelaySnapshot* sum) {
  const std::string &in = carried.rail_name(from), &out = carried.rail_name(other(from));
  for (RelayedSnapshot& row : sum->ways) {
    if (row.from == in && row.rail == out) return &row;
  }
  return nullptr;
}

void add_rows(const Carried& carried, RelaySnapshot* sum) {
  for (const relay::Side from : relay::kSides) {
    if (row_of(carried, from, sum) == nullptr)
      sum->ways.push_back(
          {.from = carried.rail_name(from), .rail = carried.rail_name(other(from))});
  }
}

std::uint64_t ring_bytes(const std::vector<std::unique_ptr<Carried>>& all) {
  std::uint64_t bytes = 0;
  for (const auto& each : all) bytes += each->ring_bytes();
  return bytes;
}

// Adds the figures of an order, whose rows must exist.
void add_figures(const Carried& carried, RelaySnapshot* sum) noexcept {
  for (const auto& chain : carried.chains()) {
    const relay::ChainCounters counters = chain->counters();
    for (const relay::Side from : relay::kSides) {
      RelayedSnapshot& row = *row_of(carried, from, sum);
      const auto side = static_cast<std::size_t>(from);
      row.bytes += counters.bytes[side];
      row.work_requests += counters.work_requests[side];
      row.ring_full += counters.ring_full[side];
    }
    sum->refused_requests += counters.refused;
  }
}
}  // namespace

RelayService::RelayService(LinkHost& host, Peers peers) : host_(host), peers_(std::move(peers)) {
  ending_.reserve(kCarriedMax);  // then end() allocates nothing
}

RelayService::~RelayService() { cut_all(); }

void RelayService::cut_all() noexcept {
  while (!carried_.empty()) end(*carried_.back(), {});
}

template <typename Body>
void RelayService::say(ConnectionId connection, const Body& body) {
  host_.plane().send(connection, encode(FrameHeader{}, body));
}

// ---- Connections.

bool RelayService::owns(ConnectionId connection) const noexcept {
  return std::any_of(callers_.begin(), callers_.end(),
                     [connection](const Caller& each) { return each.connection == connection; });
}

// Ends the chains of a lost connection. If the asker lives, both ends hear of it from the chains.
void RelayService::on_lost(ConnectionId connection) noexcept {
  std::erase_if(callers_,
                [connection](const Caller& each) { return each.connection == connection; });
  const std::uint64_t by_ns = host_.now_ns() + kAskerLostToPartedNs;
  bool parts = false;
  for (std::size_t i = carried_.size(); i-- > 0;) {
    Carried& carried = *carried_[i];
    if (carried.connection() != connection || carried.parts_by_ns() != 0) continue;
    if (carried.step() != Carried::Step::Carrying) {
      end(carried, {});
      continue;
    }
    carried.part(by_ns);
    parts = true;
  }
  if (parts) middle_.wake();
  host_.tend_soon();
}

void RelayService::drop(ConnectionId connection) noexcept {
  std::erase_if(callers_,
                [connection](const Caller& each) { return each.connection == connection; });
  for (std::size_t i = carried_.size(); i-- > 0;) {
    if (carried_[i]->connection() == connection) end(*carried_[i], {});
  }
}

bool RelayService::shows_ticket(ConnectionId connection, const Id128& ticket) {
  if (ticket == Id128{} || !same_secret(ticket, host_.ticket())) return false;
  if (owns(connection)) return true;
  if (callers_.size() >= kCallersMax) return false;
  callers_.push_back({.connection = connection});
  host_.plane().identify(connection);
  return true;
}

bool RelayService::on_frame(ConnectionId connection, const FrameHeader& header,
                            std::span<const std::byte> bytes) {
  AskPeers ask;
  Chain chain;
  Join join;
  Cut cut;
  const bool known = owns(connection);
  const bool fits = (header.type == MessageType::AskPeers && decode_into(bytes, &ask) &&
                     on_ask(connection, ask)) ||
                    (header.type == MessageType::Chain && decode_into(bytes, &chain) &&
                     on_chain(connection, chain)) ||
                    (known && header.type == MessageType::Join && decode_into(bytes, &join) &&
                     on_join(connection, join)) ||
                    (known && header.type == MessageType::Cut && decode_into(bytes, &cut) &&
                     on_cut(connection, cut));
  if (fits) return true;
  ++past_.refused_frames;
  if (host_.unauthenticated_lines().take(host_.now_ns())) {
    LOG_WARN(
        "{}: a message about relays ({}) that is malformed, out of order or without our "
        "ticket; connection dropped{}",
        host_.plane().peer_name(connection), frame_name(header.type),
        host_.unauthenticated_lines().rest());
  }
  drop(connection);
  return false;
}

bool RelayService::on_ask(ConnectionId connection, const AskPeers& body) {
  if (!shows_ticket(connection, body.ticket)) return false;
  Caller& asker = *std::find_if(callers_.begin(), callers_.end(), [connection](const Caller& each) {
    return each.connection == connection;
  });
  if (body.look != 0 && host_.neighbours() != nullptr) {
    host_.neighbours()->ask();
    asker.looks_until_ns = host_.now_ns() + kHelperToAnswerNs;
  }
  tell_peers(asker);
  return true;
}

void RelayService::tell_peers(Caller& caller) {
  const std::vector<WireHost> peers = peers_();
  caller.told = peers.size();
  auto left = static_cast<std::uint16_t>(peers.size());
  say(caller.connection, PeersAre{.left = left, .host = {self()}});
  for (const WireHost& each : peers)
    say(caller.connection, PeersAre{.left = --left, .host = {each}});
}

// Answers again those who have found no way: a host on our cables tells its rails after the first
// answer, and the asker's next question may come a second later.
void RelayService::tell_news() {
  std::optional<std::size_t> known;  // each caller is told the same hosts
  for (Caller& caller : callers_) {
    if (caller.looks_until_ns == 0) continue;
    if (host_.now_ns() >= caller.looks_until_ns) {
      caller.looks_until_ns = 0;
      continue;
    }
    if (!known) known = peers_().size();
    if (*known > caller.told) tell_peers(caller);
  }
}

// Describes this host with its ports as they are now, which our peers need not know.
WireHost RelayService::self() const {
  verbs::Provider& provider = *host_.options().provider;
  return {.ticket = host_.ticket(),
          .name = provider.host_name(),
          .host_id = provider.host_id(),
          .port = host_.plane().port(),
          .addresses = portable_addresses(host_.plane().addresses()),
          .rails = describe_rails(provider, host_.rails())};
}

// ---- Chains.

namespace {
std::string why_too_large(const ChainSizes& sizes) {
  if (sizes.sq_depth > relay::kRingSlotsMax) {
    return fmt::format("rings of {} slots were asked for; the limit is {}", sizes.sq_depth,
                       relay::kRingSlotsMax);
  }
  const std::uint64_t longest = std::max(sizes.express_bytes, sizes.wr_bytes);
  if (longest <= kCarriedWrBytesMax) return {};
  return fmt::format("work requests of {} bytes were asked for; the limit is {}", longest,
                     kCarriedWrBytesMax);
}
}  // namespace

std::string RelayService::why_not(const Chain& body) const {
  if (closing_) return "its communicators have ended";
  if (carried_.size() >= kCarriedMax)
    return fmt::format("it carries {} paths already, which is the limit", kCarriedMax);
  for (const std::uint8_t rail : {body.near_rail, body.far_rail}) {
    if (rail >= host_.rails().size())
      return fmt::format("rail {} was asked for; it has 0 to {}", rail, host_.rails().size() - 1);
    if (!verbs::port_is_up(*host_.options().provider, host_.rails()[rail]))
      return fmt::format("its port of {} is down", host_.rails()[rail].info.name);
  }
  const std::pair<std::uint8_t, std::uint8_t> ends[] = {{body.near_rail, body.near_address},
                                                        {body.far_rail, body.far_address}};
  for (const auto& [rail, address] : ends) {
    const verbs::Rail& asked = host_.rails()[rail];
    if (address >= asked.gids.size()) {
      return fmt::format("address {} of {} was asked for; it has 0 to {}", address, asked.info.name,
                         asked.gids.size() - 1);
    }
  }
  return why_too_large(body.sizes);
}

relay::RailShare* RelayService::share_of(std::uint32_t rail) {
  while (shares_.size() < host_.rails().size()) shares_.emplace_back();
  return &shares_[rail];
}

bool RelayService::start_thread() {
  if (started_ || host_.options().threading == Threading::Manual) return true;
  started_ = middle_.start().ok();
  return started_;
}

bool RelayService::on_chain(ConnectionId connection, const Chain& body) {
  if (!shows_ticket(connection, body.ticket)) return false;
  for (const auto& each : carried_) {
    if (each->connection() == connection && each->number() == body.chain) return false;
  }
  std::string why = why_not(body);
  if (why.empty() && !start_thread()) why = "it cannot start its relay thread";
  std::unique_ptr<Carried> carried;
  if (why.empty()) {
    const std::array shares{share_of(body.near_rail), share_of(body.far_rail)};
    carried = std::make_unique<Carried>(host_, connection, body, shares);
    const std::uint64_t bytes = carried->ring_bytes() + ring_bytes(carried_);
    const auto most = static_cast<std::uint64_t>(host_.options().settings.relay_bytes);
    if (bytes > most) {
      why = fmt::format(
          "rings of {} bytes were asked for; with them all rings would take {} bytes, the limit is "
          "{} (NCCL_MESH_RELAY_BYTES)",
          carried->ring_bytes(), bytes, most);
    }
  }
  if (!why.empty()) {
    ++past_.refused_paths;
    say(connection,
        Chained{.chain = body.chain,
                .result = Errc::Exhausted,
                .text = fmt::format("host {}: {}", host_.options().provider->host_name(), why)});
    return true;
  }
  add_rows(*carried, &past_);
  carried_.push_back(std::move(carried));
  make_waiting();
  host_.tend_soon();
  return true;
}

// Makes waiting orders in the order in which they came. They wait while ended paths still hold
// memory.
void RelayService::make_waiting() {
  const auto most = static_cast<std::uint64_t>(host_.options().settings.relay_bytes);
  const auto waits = [](const auto& each) { return each->step() == Carried::Step::Waiting; };
  if (std::none_of(carried_.begin(), carried_.end(), waits)) return;
  std::uint64_t bytes = ring_bytes(ending_);
  std::size_t count = ending_.size();
  for (const auto& each : carried_) {
    bytes += each->ring_bytes();
    if (bytes > most || ++count > kCarriedMax) return;
    if (waits(each)) each->make();
  }
}

bool RelayService::on_join(ConnectionId connection, const Join& body) {
  for (const auto& each : carried_) {
    if (each->connection() != connection || each->number() != body.chain) continue;
    if (each->step() != Carried::Step::Made) return false;  // a thread may be making its chains
    const std::size_t count = each->chains().size();
    if (body.near.qps.size() != count || body.far.qps.size() != count) return false;
    each->join(body);
    host_.tend_soon();
    return true;
  }
  return true;  // it has ended, which its asker is told
}

bool RelayService::on_cut(ConnectionId connection, const Cut& body) {
  for (const auto& each : carried_) {
    if (each->connection() != connection || each->number() != body.chain) continue;
    end(*each, {});
    break;
  }
  return true;
}

void RelayService::end(Carried& carried, const std::string& why) noexcept {
  if (!why.empty()) {
    try {
      say(carried.connection(), Cut{.chain = carried.number(), .text = why});
    } catch (const std::exception& error) {
      LOG_WARN("relay: {}", error.what());
    }
  }
  if (carried.step() == Carried::Step::Carrying) {
    for (const auto& chain : carried.chains()) middle_.remove(*chain);
    add_figures(carried, &past_);
  }
  const auto found = std::find_if(carried_.begin(), carried_.end(),
                                  [&carried](const auto& each) { return each.get() == &carried; });
  std::unique_ptr<Carried> ended = std::move(*found);
  carried_.erase(found);
  ended->abandon();
  if (!ended->destroy()) ending_.push_back(std::move(ended));
}

void RelayService::look_at_ports() {
  for (std::size_t i = carried_.size(); i-- > 0;) {
    const std::string down = carried_[i]->port_down();
    if (down.empty()) continue;
    end(*carried_[i], fmt::format("host {}: its port of {} is down",
                                  host_.options().provider->host_name(), down));
  }
}

void RelayService::tend() {
  std::erase_if(ending_, [](const auto& each) { return each->destroy(); });
  tell_news();
  if (carried_.empty()) return;
  make_waiting();
  const std::vector<std::unique_ptr<Carried>>& all = carried_;
  for (std::size_t i = all.size(); i-- > 0;) tend_one(*all[i]);
  if (!carried_.empty()) host_.tend_at(host_.now_ns() + kRelayLookToNextNs);
}

void RelayService::tend_one(Carried& carried) {
  if (carried.parts_by_ns() != 0) {
    if (carried.parted() || host_.now_ns() >= carried.parts_by_ns()) return end(carried, {});
    return host_.tend_at(host_.now_ns() + kPartLookToNextNs);
  }
  if (carried.step() == Carried::Step::Waiting) return;
  const std::string name = host_.options().provider->host_name();
  if (carried.step() == Carried::Step::Carrying) {
    for (const auto& chain : carried.chains()) {
      if (chain->state() == relay::ChainState::Gone)
        return end(carried, fmt::format("host {}: the chain broke (status {})", name,
                                        static_cast<int>(chain->status())));
    }
    return;
  }
  if (!carried.take_over()) return;
  const bool made = carried.step() == Carried::Step::Making;
  if (!carried.why().empty()) {
    const std::string text = fmt::format("host {}: {}", name, carried.why());
    if (made)
      say(carried.connection(),
          Chained{.chain = carried.number(), .result = Errc::System, .text = text});
    if (!made)
      say(carried.connection(),
          Joined{.chain = carried.number(), .result = Errc::Unreachable, .text = text});
    return end(carried, {});
  }
  if (made) {
    carried.set_step(Carried::Step::Made);
    say(carried.connection(), Chained{.chain = carried.number(), .ends = carried.ends()});
    return;
  }
  carried.set_step(Carried::Step::Carrying);
  for (const auto& chain : carried.chains()) {
    if (!middle_.add(*chain).ok())
      return end(carried, fmt::format("host {}: it carries {} chains already, which is the limit",
                                      name, relay::kChainsMax));
  }
  say(carried.connection(), Joined{.chain = carried.number()});
}

RelaySnapshot RelayService::figures() const {
  RelaySnapshot sum = past_;
  for (const auto& each : carried_) {
    sum.ring_bytes += each->ring_bytes();
    if (each->step() != Carried::Step::Carrying) continue;
    ++sum.paths;
    sum.chains += each->chains().size();
    add_figures(*each, &sum);
  }
  return sum;
}

void RelayService::close() { closing_ = true; }

}  // namespace mesh::engine
