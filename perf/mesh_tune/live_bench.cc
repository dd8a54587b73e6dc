#include "perf/mesh_tune/live_bench.h"

#include "perf/collectives/collective.h"
#include "perf/driver/own_process.h"
#include "perf/mesh_perf/ground.h"
#include "perf/mesh_tune/traits.h"
#include "plugin/provider.h"
#include "src/base/config.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <map>

namespace mesh::tune {
namespace {

using nlohmann::json;
using SteadyClock = std::chrono::steady_clock;

constexpr std::uint64_t kStreamBytes = 32u << 20,
                        kOneWayBytes = 16u << 20;  // about a hundredth of a second each, in memory
constexpr std::uint64_t kStreamMax = 2000, kOneWayMax = 500, kTimesMin = 10;
constexpr const char* kEnd = "end";

int times_of(const Point& point) {
  const bool stream = point.figure == Figure::Stream;
  const std::uint64_t wanted =
      (stream ? kStreamBytes : kOneWayBytes) / std::max<std::uint64_t>(point.bytes, 1);
  return static_cast<int>(std::clamp(wanted, kTimesMin, stream ? kStreamMax : kOneWayMax));
}

std::string order_text(const tuning::KnobValues& settings, std::span<const Point> points) {
  json order{{"settings", json::object()}, {"points", json::array()}};
  for (const tuning::KnobInfo& each : tuning::knob_table()) {
    if (settings[each.knob]) order["settings"][each.setting] = std::to_string(*settings[each.knob]);
  }
  for (const Point& point : points)
    order["points"].push_back({point.bytes, point.figure == Figure::Stream});
  return order.dump();
}

// Both kinds of traffic between the two ranks. Each is connected when it is first needed.
class Traffic {
 public:
  explicit Traffic(const perf::Team& team) : team_(team) {}

  // Returns the microseconds of a message on this rank; below 0 if it failed, and `why` says why.
  double time(const Point& point, std::uint64_t bytes_max, std::string& why) {
    const bool stream = point.figure == Figure::Stream;
    std::unique_ptr<perf::Collective>& flow = flows_[stream];
    if (flow == nullptr) {
      const perf::CollectiveOptions wanted{
          .kind = stream ? perf::Kind::SendRecv : perf::Kind::Latency,
          .type = perf::DataType::Uint8,
          .direction = stream ? perf::Direction::OneWay : perf::Direction::Both,
          .bytes_max = bytes_max};
      flow = perf::Collective::create(team_, wanted, why);
      if (flow == nullptr) return -1;
    }
    const int times = times_of(point);
    const std::size_t count = flow->count_for(point.bytes);
    if (!went_well(flow->run(count, times / 4 + 1), why) || !team_.bootstrap->barrier().ok())
      return -1;
    const SteadyClock::time_point start = SteadyClock::now();
    if (!went_well(flow->run(count, times), why)) return -1;
    const double us =
        std::chrono::duration<double, std::micro>(SteadyClock::now() - start).count() / times;
    if (stream) return us;
    const std::vector<double>* const samples = flow->samples_us();
    return samples != nullptr && !samples->empty() ? median(*samples) : us / 2;
  }

 private:
  static bool went_well(int result, std::string& why) {
    if (result != driver::kNetSuccess)
      why = std::string("a run failed: ") + driver::net_result_name(result);
    return result == driver::kNetSuccess;
  }

  const perf::Team team_;
  std::map<bool, std::unique_ptr<perf::Collective>> flows_;
};

std::uint64_t largest(const json& points) {
  std::uint64_t bytes = 0;
  for (const json& point : points) bytes = std::max(bytes, point[0].get<std::uint64_t>());
  return bytes;
}

}  // namespace

std::unique_ptr<LiveBench> LiveBench::open(const LiveOptions& options, driver::Bootstrap& bootstrap,
                                           std::string& why) {
  std::unique_ptr<LiveBench> bench(new LiveBench(options, bootstrap));
  if (!bench->find_ground(why)) return nullptr;
  bench->api_ = driver::NetApi::load(options.plugin, driver::kNetVersionMax, why);
  return bench->api_ == nullptr ? nullptr : std::move(bench);
}

// Finds the rails of both hosts: all names, and the smaller of the numbers. They are read before
// the plugin opens them.
bool LiveBench::find_ground(std::string& why) {
  const Result<Settings> settings = load_settings();
  if (!settings.ok()) why = "a setting is not usable";
  if (!settings.ok()) return false;
  json own = json::object();
  if (auto provider = plugin::open_provider(*settings); provider.ok()) {
    if (const auto traits = traits_of_rails(**provider, *settings)) {
      own = {{"devices", traits->devices},
             {"rails", traits->rails},
             {"speed", traits->speed_mbps},
             {"mtu", traits->mtu}};
      ground_ = measured_on(*traits);
    }
  }
  std::string kinds = options_.fabric_name.empty() ? perf::kinds_of(ground_.devices) : "";
  own["kinds"] = options_.emulated ? kinds + "e" : kinds;
  const auto all = bootstrap_.all_gather(own.dump());
  if (!all.ok()) why = "a rank was lost";
  if (!all.ok()) return false;
  std::vector<std::string> of_ranks;
  for (const std::string& text : *all) {
    const json other = json::parse(text);
    if (!other.contains("rails")) why = "a rank has no usable rail; mesh_rails there says why";
    if (!other.contains("rails")) return false;
    for (const json& device : other["devices"])
      ground_.devices.push_back(device.get<std::string>());
    ground_.rails = std::min(ground_.rails, other["rails"].get<std::uint32_t>());
    ground_.speed_mbps = std::min(ground_.speed_mbps, other["speed"].get<std::uint32_t>());
    ground_.mtu = std::min(ground_.mtu, other["mtu"].get<std::uint32_t>());
    of_ranks.push_back(other["kinds"].get<std::string>());
  }
  std::sort(ground_.devices.begin(), ground_.devices.end());
  ground_.devices.erase(std::unique(ground_.devices.begin(), ground_.devices.end()),
                        ground_.devices.end());
  perf::Ground ground{.world = 2, .device = {}, .software_fabric = options_.fabric_name};
  perf::add_kinds(of_ranks, ground);
  ground_.label = ground.sentence();
  return true;
}

std::vector<double> LiveBench::run(const std::string& order, std::string& why) {
  const json wanted = json::parse(order);
  const driver::StepVariables settings(wanted["settings"].get<Environment>());
  driver::Communicator communicator(*api_, {.id = 1});
  if (communicator.open() != driver::kNetSuccess) why = "the plugin did not start";
  std::vector<double> times;
  if (why.empty()) {
    const perf::Team team{.communicator = &communicator, .bootstrap = &bootstrap_};
    Traffic traffic(team);
    for (const json& point : wanted["points"]) {
      const Figure figure = point[1].get<bool>() ? Figure::Stream : Figure::OneWay;
      const double us =
          traffic.time({point[0].get<std::uint64_t>(), figure}, largest(wanted["points"]), why);
      if (us < 0) break;
      times.push_back(us);
    }
  }
  communicator.close();
  if (times.size() != wanted["points"].size() && why.empty()) why = "a rank was lost";
  return why.empty() ? times : std::vector<double>();
}

std::vector<double> LiveBench::measure(const tuning::KnobValues& settings,
                                       std::span<const Point> points, std::string& why) {
  const std::string order = order_text(settings, points);
  if (!bootstrap_.all_gather(order).ok()) why = "the other rank was lost";
  if (!why.empty()) return {};
  return run(order, why);
}

void LiveBench::finish() { static_cast<void>(bootstrap_.all_gather(kEnd)); }

bool LiveBench::follow(std::string& why) {
  for (;;) {
    const auto orders = bootstrap_.all_gather("");
    if (!orders.ok()) why = "rank 0 was lost";
    if (!orders.ok()) return false;
    if (orders->at(0) == kEnd) return true;
    if (run(orders->at(0), why).empty()) return false;
  }
}

}  // namespace mesh::tune
