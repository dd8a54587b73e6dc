#include "plugin/tuner.h"

#include "plugin/collnet.h"
#include "plugin/oneshot/choice.h"
#include "plugin/registry.h"

#include <new>
#include <span>

namespace mesh::plugin::tuner {

namespace {

struct Tuner {
  std::size_t least = 0;
  std::size_t bound = 0;  // 0: the communicator has no CollNet of ours
};

std::size_t bound_of(void* context, const Message& message) noexcept {
  if (context == nullptr || message.function != NCCL_FUNC_ALL_REDUCE) return 0;
  return static_cast<const Tuner*>(context)->bound;
}

bool is_collnet(int algorithm) noexcept {
  return algorithm == NCCL_ALGO_COLLNET_CHAIN || algorithm == NCCL_ALGO_COLLNET_DIRECT;
}

std::span<float> row_of(const Costs& costs, int algorithm) noexcept {
  const auto protocols = static_cast<std::size_t>(costs.protocols);
  return {costs.first + static_cast<std::size_t>(algorithm) * protocols, protocols};
}

bool has_other_choice(const Costs& costs) noexcept {
  for (int algorithm = 0; algorithm < costs.algorithms; ++algorithm) {
    if (!is_collnet(algorithm) && oneshot::any_choice(row_of(costs, algorithm))) return true;
  }
  return false;
}

}  // namespace

// A failing init would fail the communicator, so one without memory for a tuner goes without.
ncclResult_t init(const Communicator& communicator, void** context) noexcept {
  auto* const tuner = new (std::nothrow) Tuner;
  *context = tuner;
  if (tuner == nullptr || !collnet::has_communicator(communicator.id)) return ncclSuccess;
  tuner->least = oneshot::least_bytes({communicator.hosts, communicator.cuts_chunks});
  tuner->bound = Registry::instance().one_shot_bytes();
  return ncclSuccess;
}

ncclResult_t finalize(void* context) noexcept {
  delete static_cast<Tuner*>(context);
  return ncclSuccess;
}

ncclResult_t choose(void* context, const Message& message, const Costs& costs) noexcept {
  const std::size_t bound = bound_of(context, message);
  if (bound == 0 || costs.algorithms <= NCCL_ALGO_COLLNET_CHAIN ||
      costs.protocols <= NCCL_PROTO_SIMPLE)
    return ncclSuccess;
  float& chain = row_of(costs, NCCL_ALGO_COLLNET_CHAIN)[NCCL_PROTO_SIMPLE];
  if (message.bytes >= static_cast<const Tuner*>(context)->least && message.bytes <= bound) {
    if (chain >= 0) chain = 0;  // NCCL's own figures need not be alike on all hosts
    return ncclSuccess;
  }
  if (!has_other_choice(costs)) return ncclSuccess;
  for (int algorithm : {NCCL_ALGO_COLLNET_DIRECT, NCCL_ALGO_COLLNET_CHAIN}) {
    for (float& cost : row_of(costs, algorithm)) cost = NCCL_ALGO_PROTO_IGNORE;
  }
  return ncclSuccess;
}

ncclResult_t cut(void* context, const Message& message, const Choice& choice,
                 std::size_t* chunk_bytes) noexcept {
  if (message.bytes > bound_of(context, message) || choice.algorithm != NCCL_ALGO_COLLNET_CHAIN ||
      choice.protocol != NCCL_PROTO_SIMPLE || choice.channels <= 0)
    return ncclSuccess;
  *chunk_bytes =
      oneshot::chunk_bytes(message.bytes, static_cast<std::size_t>(choice.channels), *chunk_bytes);
  return ncclSuccess;
}

}  // namespace mesh::plugin::tuner
