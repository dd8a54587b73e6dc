#include "perf/model/measure.h"

namespace mesh::model {
namespace {

constexpr std::uint64_t kBesideWarmup = 20;

std::unique_ptr<World> open_world(const Experiment& experiment, std::string& why) {
  return World::open({.fabric = experiment.fabric,
                      .policy = experiment.policy,
                      .calls = experiment.calls,
                      .sites = experiment.sites,
                      .relays = experiment.via > 0 || experiment.both_ways,
                      .both_ways = experiment.both_ways},
                     why);
}

struct Counts {
  std::uint64_t doorbells = 0, completions = 0;
};
Counts counts_of(const World& world) {
  Counts counts;
  for (std::size_t host = 0; host < world.host_count(); ++host) {
    const EngineStats stats = world.stats(host);
    counts.doorbells += stats.doorbells;
    counts.completions += stats.send_completions;
  }
  return counts;
}

}  // namespace

std::optional<Throughput> measure_throughput(const Experiment& experiment, const Load& load,
                                             std::string& why) {
  const std::unique_ptr<World> world = open_world(experiment, why);
  if (world == nullptr) return std::nullopt;
  std::vector<Flow*> there;
  std::uint64_t messages = 0;
  for (std::uint32_t channel = 0; channel < experiment.channels; ++channel) {
    for (const std::size_t sender : {std::size_t{0}, experiment.last()}) {
      if (sender != 0 && experiment.direction == Direction::OneWay) continue;
      Flow* const flow = world->add_flow(load, sender, experiment.last() - sender, why);
      if (flow == nullptr) return std::nullopt;
      if (sender == 0) there.push_back(flow);
      messages += load.messages;
    }
  }
  const Counts before = counts_of(*world);
  if (!world->run([] { return false; }, why)) return std::nullopt;
  const Counts after = counts_of(*world);
  if (world->rnr_events() != 0) return why = "a receiver was not ready", std::nullopt;
  Throughput result;
  for (const Flow* flow : there) result.gbytes_per_s += flow->bytes_per_ns();
  for (const Flow* flow : there) result.messages_per_us += flow->messages_per_us();
  result.doorbells_per_message =
      static_cast<double>(after.doorbells - before.doorbells) / static_cast<double>(messages);
  result.completions_per_message =
      static_cast<double>(after.completions - before.completions) / static_cast<double>(messages);
  return result;
}

std::optional<results::Latency> measure_latency(const Experiment& experiment, const Load& load,
                                                std::size_t beside_bytes, std::string& why) {
  const std::unique_ptr<World> world = open_world(experiment, why);
  if (world == nullptr) return std::nullopt;
  Load single = load;
  single.outstanding = 1;
  Flow* big = nullptr;
  if (beside_bytes != 0) {
    big = world->add_flow({.bytes = beside_bytes, .messages = 1}, 0, experiment.last(), why);
    if (big == nullptr) return std::nullopt;
    single.messages = UINT32_MAX;
    single.warmup = kBesideWarmup;
  }
  Flow* const flow = world->add_flow(single, 0, experiment.last(), why);
  if (flow == nullptr) return std::nullopt;
  const auto done = [&] { return big != nullptr && big->finished(); };
  if (!world->run(done, why)) return std::nullopt;
  if (flow->completed() <= single.warmup)
    return why = "the large message was over before there was a latency", std::nullopt;
  return results::latency_of(flow->latencies_us());
}

std::optional<Yielding> measure_yielding(const Experiment& experiment, const Load& own,
                                         const Load& carried, std::string& why) {
  Yielding found;
  for (const bool beside : {false, true}) {
    const std::unique_ptr<World> world = open_world(experiment, why);
    if (world == nullptr) return std::nullopt;
    Load endless = carried;
    endless.messages = UINT32_MAX;
    Flow* const far = beside ? world->add_flow(endless, 0, experiment.last(), why) : nullptr;
    if (beside && far == nullptr) return std::nullopt;
    Flow* const flow = world->add_flow(own, experiment.last() - 1, experiment.last(), why);
    if (flow == nullptr || !world->run([flow] { return flow->finished(); }, why))
      return std::nullopt;
    (beside ? found.beside : found.alone) = flow->bytes_per_ns();
    if (beside) found.carried = far->bytes_per_ns();
  }
  return found;
}

std::optional<double> measure_ring(const Experiment& experiment, const Load& load,
                                   std::string& why) {
  const std::unique_ptr<World> world = open_world(experiment, why);
  if (world == nullptr) return std::nullopt;
  std::vector<Flow*> flows;
  const std::size_t hosts = world->host_count();
  for (std::size_t host = 0; host < hosts; ++host) {
    for (const std::size_t step : {std::size_t{1}, hosts - 1}) {
      if (step != 1 && experiment.direction == Direction::OneWay) continue;
      flows.push_back(world->add_flow(load, host, (host + step) % hosts, why));
      if (flows.back() == nullptr) return std::nullopt;
    }
  }
  if (experiment.both_ways && !world->open_both_ways(why)) return std::nullopt;
  if (!world->run([] { return false; }, why)) return std::nullopt;
  double sum = 0;
  for (const Flow* const flow : flows) sum += flow->bytes_per_ns();
  return sum / static_cast<double>(flows.size());
}

}  // namespace mesh::model
