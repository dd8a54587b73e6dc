#include "perf/mesh_tune/bench.h"

#include "perf/mesh_tune/traits.h"
#include "perf/model/fabric_spec.h"
#include "perf/model/in_order.h"
#include "perf/model/measure.h"
#include "src/soft/fabric_file.h"
#include "tuning/derive.h"

#include <atomic>
#include <utility>

namespace mesh::tune {
namespace {

// The effect of a change of settings settles within a few hundred messages; the model's own bars
// take as many.
constexpr std::uint64_t kMessages = 600, kLargeMessages = 200;
constexpr std::uint64_t kLarge = std::uint64_t{1} << 20;

class ModelBench final : public Bench {
 public:
  ModelBench(soft::FabricFile fabric, FabricTraits traits, MeasuredOn ground)
      : fabric_(std::move(fabric)), traits_(std::move(traits)), ground_(std::move(ground)) {}

  std::vector<double> measure(const tuning::KnobValues& settings, std::span<const Point> points,
                              std::string& why) override {
    const model::Experiment experiment{
        .fabric = fabric_, .policy = policy_of(settings), .calls = {}};
    std::vector<double> times;
    const auto measure_one = [&](std::size_t i) { return measured(experiment, points[i]); };
    const bool all =
        model::in_order(points.size(), measure_one, [&](std::size_t, const Measured& one) {
          why = one.why;
          times.push_back(one.time_us);
          return one.time_us > 0;
        });
    if (!all) times.clear();
    return times;
  }
  const MeasuredOn& ground() const override { return ground_; }
  bool is_noisy() const override { return false; }

 private:
  TransferPolicy policy_of(const tuning::KnobValues& knobs) const {
    Settings wanted;
    for (const tuning::KnobInfo& each : tuning::knob_table()) {
      if (knobs[each.knob]) tuning::set_value(wanted, each.knob, *knobs[each.knob]);
    }
    return tuning::derive_policy(traits_, wanted);
  }
  struct Measured {
    double time_us = 0;  // a message; 0: `why` says why not
    std::string why;
  };
  static Measured measured(const model::Experiment& experiment, const Point& point) {
    Measured one;
    model::Load load{.bytes = point.bytes, .outstanding = 8};
    load.messages = point.bytes > kLarge ? kLargeMessages : kMessages;
    load.warmup = load.messages / 4;
    if (point.figure == Figure::Stream) {
      const auto found = model::measure_throughput(experiment, load, one.why);
      if (found && found->messages_per_us > 0) one.time_us = 1 / found->messages_per_us;
    } else {
      const auto found = model::measure_latency(experiment, load, 0, one.why);
      if (found) one.time_us = found->median;
    }
    return one;
  }

  const soft::FabricFile fabric_;
  const FabricTraits traits_;
  const MeasuredOn ground_;
};

}  // namespace

std::unique_ptr<Bench> open_model_bench(const std::string& file, std::string& why) {
  Result<soft::FabricFile> fabric = soft::load(file);
  if (!fabric.ok()) why = "fabric file " + file + " is not usable";
  if (fabric.ok() && fabric->hosts.size() < 2) why = file + " has one host, not 2";
  if (!why.empty()) return nullptr;
  const std::atomic<std::uint64_t> clock{1'000'000};
  auto provider = soft::SoftProvider::open({.fabric = *fabric,
                                            .host = fabric->hosts[0].name,
                                            .agent = soft::Agent::None,
                                            .clock = Clock(&clock)});
  if (!provider.ok()) why = std::string("no model: ") + errc_name(provider.code());
  if (!provider.ok()) return nullptr;
  const std::optional<FabricTraits> traits = traits_of_rails(**provider, Settings{});
  if (!traits) why = file + ": its first host has no usable NIC";
  if (!traits) return nullptr;
  MeasuredOn ground = measured_on(*traits);
  ground.label = "MODEL, not measured (" + file.substr(file.rfind('/') + 1) + ")";
  ground.devices.clear();
  return std::make_unique<ModelBench>(*std::move(fabric), *traits, std::move(ground));
}

}  // namespace mesh::tune
