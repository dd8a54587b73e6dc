#include "engine/link/relay/neighbours.h"

#include "engine/link/link_host.h"
#include "engine/link/relay/known_cables.h"
#include "src/base/log.h"
#include "src/base/random.h"
#include "src/base/timeouts.h"

#include <algorithm>
#include <cerrno>
#include <functional>
#include <utility>

namespace mesh::engine {

// ---- Secrets.

void Neighbours::begin() {
  const std::string& job = host_.options().settings.job;
  if (job.empty()) return;
  named_ = true;
  secrets_.push_back({.uses = 1, .key = key_of_text(job, host_.options().settings.site)});
  listen();
}

void Neighbours::know(std::uint64_t communicator) {
  if (named_) return;
  for (Secret& secret : secrets_)
    if (secret.communicator == communicator) return static_cast<void>(++secret.uses);
  secrets_.push_back({.communicator = communicator,
                      .uses = 1,
                      .key = key_of_communicator(communicator, host_.options().settings.site)});
  listen();
}

void Neighbours::forget(std::uint64_t communicator) noexcept {
  if (named_) return;
  const auto found = std::find_if(
      secrets_.begin(), secrets_.end(),
      [communicator](const Secret& secret) { return secret.communicator == communicator; });
  if (found == secrets_.end() || --found->uses != 0) return;
  secrets_.erase(found);
  if (secrets_.empty()) ears_.clear();
}

// The first communicators count: one of all hosts is mostly the first one of a job.
std::span<const Neighbours::Secret> Neighbours::keys() const noexcept {
  return std::span(secrets_).first(std::min(secrets_.size(), kNeighbourKeysMax));
}

bool Neighbours::takes_part() const noexcept {
  return !secrets_.empty() && host_.ticket() != Id128{};
}

template <typename Open>
void Neighbours::open_all(Ends& ends, Open&& open) {
  const std::span<const verbs::Rail> rails = host_.rails();
  ends.resize(rails.size());
  for (std::size_t rail = 0; rail < rails.size(); ++rail) {
    if (!rails[rail].ethernet || (ends[rail] != nullptr && ends[rail]->refresh())) continue;
    ends[rail] = open(rails[rail].context.get(), rails[rail].gids.front());
    if (ends[rail] != nullptr && !host_.plane().watch(ends[rail]->fd()).ok()) ends[rail].reset();
  }
}

void Neighbours::listen() {
  if (!takes_part()) return;
  bool taken = false;
  open_all(ears_, [&](ibv_context* context, const verbs::GidEntry& gid) {
    errno = 0;
    auto ear = host_.options().provider->open_datagrams(context, gid, verbs::DatagramEnd::Group);
    taken |= ear == nullptr && errno == EADDRINUSE;
    return ear;
  });
  const bool news = taken != std::exchange(port_taken_, taken);
  listen_at_ns_ = taken ? host_.now_ns() + kEndToReadAgainNs : 0;
  if (taken) host_.tend_at(listen_at_ns_);
  if (!news) return;
  const std::uint16_t port = verbs::kCableGroup.port;
  if (taken)
    LOG_INFO("neighbours are not heard: another program has UDP port {} of this host", port);
  else
    LOG_INFO("neighbours are heard again: UDP port {} is free", port);
}

// ---- Asking.

void Neighbours::ask() {
  const std::uint64_t now_ns = host_.now_ns();
  if (!takes_part()) return;
  if (asked_ns_ != 0 && now_ns < asked_ns_ + pause_ns_) return;
  const bool again = asked_ns_ != 0 && now_ns < asked_ns_ + kAskedToForgottenNs;
  const std::uint64_t longer = again ? std::min(2 * pause_ns_, kTryPauseMaxNs) : 0;
  pause_ns_ = std::max(longer, kTryPauseMinNs);
  // No two hosts draw alike, and a simulated world draws as it did before.
  const std::string draw =
      fmt::format("{} {}", host_.options().provider->host_name(), counts_.asked);
  pause_ns_ += std::hash<std::string>()(draw) % (pause_ns_ / 2);
  asked_ns_ = now_ns;
  // The group has an IPv6 address.
  open_all(mouths_, [this](ibv_context* context, const verbs::GidEntry& gid) {
    auto end = host_.options().provider->open_datagrams(context, gid, verbs::DatagramEnd::Port);
    return end != nullptr && !end->place().has_ipv6() ? nullptr : std::move(end);
  });
  if (rounds_.size() == kRoundsMax) rounds_.erase(rounds_.begin());
  rounds_.push_back({.nonce = random_id(), .until_ns = now_ns + kHelperToAnswerNs});
  std::vector<JobKey> asks;
  for (const Secret& secret : keys()) asks.push_back(secret.key);
  for (std::size_t rail = 0; rail < mouths_.size(); ++rail) {
    if (mouths_[rail] == nullptr) continue;
    ++counts_.asked;
    mouths_[rail]->send(verbs::kCableGroup,
                        bytes_of(NeighbourQuestion{.rail = static_cast<std::uint8_t>(rail),
                                                   .nonce = rounds_.back().nonce},
                                 asks, mouths_[rail]->place()));
  }
  host_.tend_at(rounds_.back().until_ns);
}

std::vector<WireHost> Neighbours::found() const {
  std::vector<WireHost> hosts;
  hosts.reserve(found_.size());
  for (const Found& each : found_) {
    std::vector<topo::WirePair> pairs;
    pairs.reserve(each.wires.size());
    for (const Wire& wire : each.wires) pairs.push_back(wire.pair);
    hosts.push_back(each.host);
    hosts.back().cables = told_cables({.asked = pairs, .met = pairs});
  }
  return hosts;
}

std::uint64_t Neighbours::patience_ns() const noexcept {
  if (!named_ || !takes_part()) return kStallToNoRouteNs;
  const auto bound_ns =
      static_cast<std::uint64_t>(host_.options().settings.path_timeout_s) * kNsPerSecond;
  return std::max(kStallToNoRouteNs, std::min(kStallToNobodyNs, bound_ns));
}

std::string Neighbours::told() const {
  if (!takes_part())
    return "set NCCL_MESH_JOB alike on all hosts: without it, or a communicator of all hosts "
           "(NCCL 2.28 or later), neighbours cannot be asked";
  if (counts_.asked == 0)
    return "begin with a communicator of all hosts and NCCL_RUNTIME_CONNECT=0: no port of ours "
           "takes datagrams to ask neighbours";
  std::string names;
  for (const Found& each : found_) names += (names.empty() ? "" : ", ") + each.host.name;
  if (!names.empty())
    return fmt::format("check the cables of the neighbours that answered: {}", names);
  if (named_)
    return fmt::format(
        "start the job on the hosts between, too, with this NCCL_MESH_JOB, and let UDP port {} of "
        "link-local addresses pass: no neighbour answered {} questions",
        verbs::kCableGroup.port, counts_.asked);
  return fmt::format(
      "set NCCL_MESH_JOB alike on all hosts: no neighbour shares a communicator with us, or a "
      "firewall drops UDP port {} of link-local addresses ({} questions)",
      verbs::kCableGroup.port, counts_.asked);
}

void Neighbours::tend() {
  if (listen_at_ns_ != 0 && host_.now_ns() >= listen_at_ns_) listen();
  if (rounds_.empty() && found_.empty()) return;
  const std::uint64_t now_ns = host_.now_ns();
  std::erase_if(rounds_, [now_ns](const Round& round) { return now_ns >= round.until_ns; });
  if (rounds_.empty()) mouths_.clear();
  for (Found& each : found_)  // a plug may have moved
    std::erase_if(each.wires, [now_ns](const Wire& wire) { return now_ns >= wire.until_ns; });
  std::erase_if(found_, [](const Found& each) { return each.wires.empty(); });
  for (const Round& round : rounds_) host_.tend_at(round.until_ns);
}

}  // namespace mesh::engine
