#include "tests/sim/other_jobs.h"

#include "engine/link/relay/neighbours.h"
#include "tests/sim/control_network.h"

namespace mesh::sim {
namespace {
constexpr std::uint64_t kOtherJobsStream = 18;  // of Random
constexpr std::uint64_t kActsOneIn = 16, kCrowdsOneIn = 3, kCrowdLastNs = 200'000'000;
constexpr std::uint64_t kCrowd = 200;  // questions; all of them may be looked at
static_assert(kCrowd > 3 * engine::Neighbours::kAnswersMax &&
              kCrowd < engine::Neighbours::kLooksMax);
// A question begins with four bytes of a magic number, a version, its kind and a rail.
constexpr std::size_t kRailAt = 6, kNonceAt = 7;
constexpr std::size_t kQuestionBytes = 39;
constexpr std::uint64_t kSecondNs = 1'000'000'000;
constexpr int kShortTimeoutS = 3;
}  // namespace

OtherJobs::OtherJobs(const Scenario& scenario, Trace& trace)
    : random_(scenario.seed, kOtherJobsStream),
      trace_(trace),
      crowds_(scenario.path_timeout_s > kShortTimeoutS) {
  for (std::size_t process = 0; process < scenario.processes.size(); ++process)
    processes_max_ = std::max<std::uint64_t>(processes_max_, scenario.sibling_number(process) + 1);
}

engine::Id128 OtherJobs::nonce() {
  engine::Id128 id;
  for (std::uint8_t& each : id) each = static_cast<std::uint8_t>(random_.below(256));
  nonces_.insert(id);
  return id;
}

void OtherJobs::join(std::size_t host, verbs::Provider& provider) {
  if (random_.one_in(2)) return;
  Result<std::vector<verbs::Rail>> rails = verbs::discover(provider, {});
  if (!rails.ok()) throw std::runtime_error("a process of another job finds no rails");
  Process& one = *all_.emplace_back(std::make_unique<Process>());
  one.host = host;
  one.key = engine::key_of_text(fmt::format("the secret of job {}", host));
  one.rails = std::move(*rails);
  for (const verbs::Rail& rail : one.rails) {
    const auto open = [&](verbs::DatagramEnd end) {
      return provider.open_datagrams(rail.context.get(), rail.gids.front(), end);
    };
    one.ends.push_back(
        {.ear = open(verbs::DatagramEnd::Group), .mouth = open(verbs::DatagramEnd::Port)});
  }
  if (!crowds_ || !random_.one_in(kCrowdsOneIn)) return;
  one.crowds_at_ns = random_.below(kCrowdLastNs);
  const verbs::Rail& rail = one.rails[random_.below(one.rails.size())];
  one.crowd =
      provider.open_datagrams(rail.context.get(), rail.gids.front(), verbs::DatagramEnd::Port);
}

void OtherJobs::leave(std::size_t host) {
  std::erase_if(all_, [host](const auto& one) { return one->host == host; });
}

void OtherJobs::act(std::uint64_t now_ns) {
  if (all_.empty() || !random_.one_in(kActsOneIn)) return;
  Process& one = *all_[random_.below(all_.size())];
  hear(one, now_ns);
  if (now_ns >= one.crowds_at_ns) ask_as_a_crowd(one, now_ns);
  if (now_ns < one.next_ns) return;
  one.next_ns = now_ns + kOtherJobPauseNs;
  ask(one);
}

void OtherJobs::hear(Process& one, std::uint64_t now_ns) {
  for (const End& end : one.ends) {
    while (const auto heard = end.ear->next())
      if (engine::may_be_question(heard->span())) forge_answer(one, *end.ear, *heard);
    if (end.mouth->next())
      trace_.violate(fmt::format("a question of another job from host {} is answered", one.host));
  }
  while (one.crowd != nullptr && one.crowd->next()) ++one.answers;
  const std::uint64_t seconds = 2 + (now_ns - one.crowd_ns) / kSecondNs;
  if (one.answers > seconds * processes_max_ * engine::Neighbours::kAnswersMax)
    trace_.violate(fmt::format("a neighbour of host {} answers {} questions in {} s", one.host,
                               one.answers, seconds));
}

// Answers as a host that has another secret.
void OtherJobs::forge_answer(const Process& one, verbs::CableDatagrams& ear,
                             const verbs::CableDatagram& question) {
  engine::Id128 asked;
  const auto bytes = std::as_bytes(std::span(question.data)).subspan(kNonceAt, asked.size());
  std::copy(bytes.begin(), bytes.end(), std::as_writable_bytes(std::span(asked)).begin());
  if (nonces_.contains(asked)) return;  // of another job
  const engine::NeighbourAnswer answer{
      .asker_rail = static_cast<std::uint8_t>(question.data[kRailAt]),
      .ticket = {1},
      .port = 1,
      .name = "elsewhere",
      .addresses = {SimPlane::address_of(kOtherJobHost)}};
  ear.send(question.from, bytes_of(answer, one.key, asked));
}

// Asks with a secret that no host of the world has, or sends bytes that mean nothing.
void OtherJobs::ask(Process& one) {
  const std::size_t rail = random_.below(one.ends.size());
  verbs::CableDatagrams& mouth = *one.ends[rail].mouth;
  if (random_.one_in(4)) {
    std::array<std::byte, kQuestionBytes> nonsense;
    for (std::byte& each : nonsense) each = static_cast<std::byte>(random_.below(256));
    return mouth.send(verbs::kCableGroup,
                      std::span(nonsense).first(random_.below(1 + kQuestionBytes)));
  }
  mouth.send(
      verbs::kCableGroup,
      bytes_of(engine::NeighbourQuestion{.rail = static_cast<std::uint8_t>(rail), .nonce = nonce()},
               {&one.key, 1}, mouth.place()));
}

void OtherJobs::ask_as_a_crowd(Process& one, std::uint64_t now_ns) {
  one.crowds_at_ns = UINT64_MAX;
  one.crowd_ns = now_ns;
  const engine::JobKey key = engine::key_of_text(kSimulatedJob);
  for (std::uint64_t i = 0; i < kCrowd; ++i)
    one.crowd->send(verbs::kCableGroup, bytes_of(engine::NeighbourQuestion{.nonce = nonce()},
                                                 {&key, 1}, one.crowd->place()));
}

}  // namespace mesh::sim
