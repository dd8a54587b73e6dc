#include "perf/collectives/collective.h"

#include "perf/collectives/carriers.h"
#include "perf/collectives/element.h"
#include "perf/collectives/exchange.h"
#include "perf/collectives/one_shot.h"
#include "perf/collectives/ping_pong.h"
#include "perf/collectives/ring_collective.h"

namespace mesh::perf {
namespace {

template <typename T>
std::unique_ptr<Collective> opened(std::unique_ptr<T> collective, std::string& error) {
  if (collective->open(error) != driver::kNetSuccess) return nullptr;
  return collective;
}

template <typename T>
std::unique_ptr<Collective> opened_as(const Team& team, const CollectiveOptions& options,
                                      std::string& error) {
  if (options.algorithm == Algorithm::OneShot)
    return opened(std::make_unique<OneShot<T>>(team, options), error);
  return opened(std::make_unique<RingCollective<T>>(team, options), error);
}

std::unique_ptr<Collective> computed(const Team& team, const CollectiveOptions& options,
                                     std::string& error) {
  switch (options.type) {
    case DataType::Uint8: return opened_as<std::uint8_t>(team, options, error);
    case DataType::Int32: return opened_as<std::int32_t>(team, options, error);
    case DataType::Int64: return opened_as<std::int64_t>(team, options, error);
    case DataType::Half: return opened_as<Half>(team, options, error);
    case DataType::Bfloat16: return opened_as<Bfloat16>(team, options, error);
    case DataType::Float: return opened_as<float>(team, options, error);
    case DataType::Double: return opened_as<double>(team, options, error);
  }
  return nullptr;
}

// The group's bound is the plugin's.
std::string mistake_in_one_shot(const CollectiveOptions& options, int world, int channels) {
  constexpr int kMembersMax = 16;
  if (options.kind != Kind::AllReduce) return "one-shot needs all_reduce";
  if (world < 2 || world > kMembersMax)
    return "one-shot all-reduce joins 2 to " + std::to_string(kMembersMax) + " ranks, not " +
           std::to_string(world);
  return channels == 1 ? "" : "one-shot all-reduce has one channel";
}

}  // namespace

DataTypeInfo info(DataType type) noexcept {
  switch (type) {
    case DataType::Uint8: return {"uint8", 1};
    case DataType::Int32: return {"int32", 4};
    case DataType::Int64: return {"int64", 8};
    case DataType::Half: return {"half", 2};
    case DataType::Bfloat16: return {"bfloat16", 2};
    case DataType::Float: return {"float", 4};
    case DataType::Double: return {"double", 8};
  }
  return {"unknown", 1};
}

std::string mistake_in(const CollectiveOptions& options, int world, int channels) {
  const Kind kind = options.kind;
  if (options.algorithm == Algorithm::OneShot) return mistake_in_one_shot(options, world, channels);
  if (options.direction == Direction::OneWay && (kind != Kind::SendRecv || world != 2))
    return "one way needs sendrecv between exactly 2 ranks";
  if (kind == Kind::Latency && (world != 2 || channels != 1))
    return "latency is measured between exactly 2 ranks (--hosts a,b) over 1 channel";
  if (options.pause.count() != 0 && kind != Kind::Latency) return "--pause needs latency";
  if (world < 2 && on_ring(kind)) return "one rank is no ring; wanted: at least 2 ranks";
  if (has_root(kind) && (options.root < 0 || options.root >= world))
    return "root " + std::to_string(options.root) + " is no rank; wanted: 0.." +
           std::to_string(world - 1);
  return {};
}

std::unique_ptr<Collective> Collective::create(const Team& team, const CollectiveOptions& options,
                                               std::string& error) {
  if (team.carries()) return opened(std::make_unique<Carrying>(team, options), error);
  error = mistake_in(options, team.world(), team.channels);
  if (!error.empty()) return nullptr;
  if (on_ring(options.kind)) return computed(team, options, error);
  if (options.kind == Kind::Latency)
    return opened(std::make_unique<PingPong>(team, options), error);
  return opened(std::make_unique<Exchange>(team, options), error);
}

}  // namespace mesh::perf
