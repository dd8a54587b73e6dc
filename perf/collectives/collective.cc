#include "perf/collectives/collective.h"

#include "perf/collectives/carriers.h"
#include "perf/collectives/exchange.h"
#include "perf/collectives/ping_pong.h"
#include "perf/collectives/ring_all_reduce.h"

namespace mesh::perf {
namespace {

template <typename T>
std::unique_ptr<Collective> opened(std::unique_ptr<T> collective, std::string& error) {
  if (collective->open(error) != driver::kNetSuccess) return nullptr;
  return collective;
}

std::unique_ptr<Collective> all_reduce(const Team& team, const CollectiveOptions& options,
                                       std::string& error) {
  switch (options.type) {
    case DataType::Uint8:
      return opened(std::make_unique<RingAllReduce<std::uint8_t>>(team, options.bytes_max), error);
    case DataType::Int32:
      return opened(std::make_unique<RingAllReduce<std::int32_t>>(team, options.bytes_max), error);
    case DataType::Int64:
      return opened(std::make_unique<RingAllReduce<std::int64_t>>(team, options.bytes_max), error);
    case DataType::Float:
      return opened(std::make_unique<RingAllReduce<float>>(team, options.bytes_max), error);
    case DataType::Double:
      return opened(std::make_unique<RingAllReduce<double>>(team, options.bytes_max), error);
  }
  return nullptr;
}

}  // namespace

DataTypeInfo info(DataType type) noexcept {
  switch (type) {
    case DataType::Uint8: return {"uint8", 1};
    case DataType::Int32: return {"int32", 4};
    case DataType::Int64: return {"int64", 8};
    case DataType::Float: return {"float", 4};
    case DataType::Double: return {"double", 8};
  }
  return {"unknown", 1};
}

std::unique_ptr<Collective> Collective::create(const Team& team, const CollectiveOptions& options,
                                               std::string& error) {
  if (team.carries()) return opened(std::make_unique<Carrying>(team, options), error);
  if (options.direction == Direction::OneWay &&
      (options.kind != Kind::SendRecv || team.world() != 2)) {
    error = "one way needs sendrecv between exactly 2 ranks";
    return nullptr;
  }
  if (options.kind == Kind::Latency) {
    if (team.world() == 2 && team.channels == 1)
      return opened(std::make_unique<PingPong>(team, options), error);
    error = "latency is measured between exactly 2 ranks (--hosts a,b) over 1 channel";
    return nullptr;
  }
  if (options.kind == Kind::AllReduce) return all_reduce(team, options, error);
  return opened(std::make_unique<Exchange>(team, options), error);
}

}  // namespace mesh::perf
