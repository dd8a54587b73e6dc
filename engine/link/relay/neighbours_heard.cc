// The datagrams of neighbours that are heard: questions and answers.
#include "engine/control/handle.h"
#include "engine/link/link_host.h"
#include "engine/link/relay/neighbours.h"
#include "src/base/log.h"
#include "src/base/random.h"
#include "src/base/timeouts.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace mesh::engine {

namespace {
bool is_loopback(const SocketAddress& address) { return address.loopback(); }
}  // namespace

// ---- Events.

bool Neighbours::owns(int fd) const noexcept {
  const auto is_it = [fd](const auto& end) { return end != nullptr && end->fd() == fd; };
  return std::any_of(ears_.begin(), ears_.end(), is_it) ||
         std::any_of(mouths_.begin(), mouths_.end(), is_it);
}

void Neighbours::on_readable(int fd) {
  for (Ends* const ends : {&ears_, &mouths_}) {
    for (std::size_t rail = 0; rail < ends->size(); ++rail) {
      verbs::CableDatagrams* const end = (*ends)[rail].get();
      if (end == nullptr || end->fd() != fd) continue;
      for (int taken = 0; taken < kDatagramsPerPass; ++taken) {
        const std::optional<verbs::CableDatagram> next = end->next();
        if (!next) return;
        if (ends != &ears_) {
          hear_answer(rail, *next);
          continue;
        }
        hear_question(rail, *next);
        if (budget_of(rail).codes + codes_of_question() > kLooksMax * kCodesOfLook)
          return rest(rail);
      }
    }
  }
}

Neighbours::Budget& Neighbours::budget_of(std::size_t rail) {
  if (budgets_.size() <= rail) budgets_.resize(rail + 1);
  Budget& budget = budgets_[rail];
  const std::uint64_t now_ns = host_.now_ns();
  if (now_ns >= budget.began_ns + kNeighbourBudgetNs) budget = {.began_ns = now_ns};
  return budget;
}

// Codes cost time, so a flood of forged ones gets only so much of it, and none of that of the other
// ports.
bool Neighbours::may_compute(std::size_t rail, std::size_t codes) {
  Budget& budget = budget_of(rail);
  if (budget.codes + codes > kLooksMax * kCodesOfLook) return false;
  budget.codes += static_cast<std::uint32_t>(codes);
  return true;
}

// To read a flood costs more than to look at it.
void Neighbours::rest(std::size_t rail) {
  ears_[rail].reset();
  ++counts_.excess;
  const std::uint64_t over_ns = budget_of(rail).began_ns + kNeighbourBudgetNs;
  listen_at_ns_ = listen_at_ns_ == 0 ? over_ns : std::min(listen_at_ns_, over_ns);
  host_.tend_at(listen_at_ns_);
}

void Neighbours::hear_question(std::size_t rail, const verbs::CableDatagram& datagram) {
  if (!may_compute(rail, codes_of_question())) return static_cast<void>(++counts_.excess);
  if (!may_be_question(datagram.span())) return static_cast<void>(++counts_.malformed);
  for (const Secret& secret : keys()) {
    const auto question = question_of(datagram.span(), secret.key, datagram.from);
    if (question) return answer(rail, datagram.from, secret, *question);
  }
  ++counts_.foreign;
}

void Neighbours::answer(std::size_t rail, const verbs::DatagramPlace& to, const Secret& secret,
                        const NeighbourQuestion& question) {
  const bool ours = std::any_of(rounds_.begin(), rounds_.end(), [&question](const Round& round) {
    return same_secret(round.nonce, question.nonce);
  });
  if (ours) return;  // it has come back to another port of ours
  const auto is_it = [&](const Answered& each) {
    return each.rail == rail && same_secret(each.nonce, question.nonce);
  };
  if (std::any_of(answered_.begin(), answered_.end(), is_it)) return;
  Budget& budget = budget_of(rail);
  if (budget.answers == kAnswersMax) return static_cast<void>(++counts_.excess);
  ++budget.answers;
  if (answered_.size() == kAnswersMax) answered_.erase(answered_.begin());
  answered_.push_back({.nonce = question.nonce, .rail = rail});
  ++counts_.answered;
  const NeighbourAnswer said{.asker_rail = question.rail,
                             .rail = static_cast<std::uint8_t>(rail),
                             .ticket = host_.ticket(),
                             .port = host_.plane().port(),
                             .name = host_.options().provider->host_name(),
                             .addresses = portable_addresses(host_.plane().addresses())};
  ears_[rail]->send(to, bytes_of(said, secret.key, question.nonce));
}

void Neighbours::hear_answer(std::size_t rail, const verbs::CableDatagram& datagram) {
  if (!may_be_answer(datagram.span())) return static_cast<void>(++counts_.malformed);
  if (!may_compute(rail, kCodesOfLook)) return static_cast<void>(++counts_.excess);
  std::size_t codes = 0;
  for (std::size_t i = rounds_.size(); i-- > 0;) {  // most answers are to the newest question
    const Round& round = rounds_[i];
    for (const Secret& secret : keys()) {
      if (++codes > kCodesOfLook && !may_compute(rail, 1))
        return static_cast<void>(++counts_.excess);
      std::optional<NeighbourAnswer> answer = answer_of(datagram.span(), secret.key, round.nonce);
      if (!answer) continue;
      if (answer->asker_rail != rail) return static_cast<void>(++counts_.malformed);
      return note(rail, *std::move(answer));
    }
  }
  ++counts_.foreign;
}

// An address of a host's own loopback means something only where the job runs on one host.
void Neighbours::note(std::size_t rail, NeighbourAnswer answer) {
  const std::span<const SocketAddress> own = host_.plane().addresses();
  if (std::none_of(own.begin(), own.end(), is_loopback))
    std::erase_if(answer.addresses, is_loopback);
  if (answer.addresses.empty() || answer.ticket == host_.ticket()) return;
  const std::uint64_t until_ns = host_.now_ns() + kHostKnownNs;
  const topo::WirePair wire{.local = rail, .peer = answer.rail};
  for (Found& each : found_) {
    if (each.host.ticket != answer.ticket) continue;
    ++counts_.taken;
    const auto known = std::find_if(each.wires.begin(), each.wires.end(),
                                    [&wire](const Wire& one) { return one.pair == wire; });
    if (known != each.wires.end())
      known->until_ns = until_ns;
    else
      each.wires.push_back({wire, until_ns});
    return;
  }
  if (found_.size() == kFoundMax) return static_cast<void>(++counts_.excess);
  ++counts_.taken;
  LOG_INFO("host {}, which {} leads to, may carry messages for us", answer.name,
           host_.rails()[rail].info.name);
  found_.push_back({.host = {.ticket = answer.ticket,
                             .name = std::move(answer.name),
                             .port = answer.port,
                             .addresses = std::move(answer.addresses),
                             .rails = {}},
                    .wires = {{wire, until_ns}}});
  host_.tend_soon();
}

}  // namespace mesh::engine
