#include "perf/collectives/ring_collective.h"

#include "perf/collectives/element.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace mesh::perf {
namespace {

// Returns an element that differs by place, rank and round. Every reduction of such elements by up
// to 256 ranks (16-bit floating-point types: 30) is exact, in any order: small whole numbers, and
// for products of floating-point types 1/2, 1 and 2, of which neighbours have opposite ones.
// Integers wrap equally everywhere.
template <typename T>
T value_at(Reduction reduction, std::size_t index, int rank, std::uint64_t round) {
  const std::uint64_t mixed = (index + 1) * 0x9e3779b97f4a7c15u +
                              static_cast<std::uint64_t>(rank) * 0xbf58476d1ce4e5b9u + round;
  const std::uint64_t value = (mixed ^ (mixed >> 29)) >> 16;
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(reduction == Reduction::Prod ? value | 1 : value & 0xffff);
  } else {
    using W = Wide<T>;
    constexpr std::uint64_t kMask = sizeof(T) == 2 ? 3 : 0xffff;
    const W power = rank % 2 == 0 ? W{2} : W{0.5};
    if (reduction != Reduction::Prod) return static_cast<T>(static_cast<W>(value & kMask));
    return static_cast<T>((value & 1) != 0 ? power : W{1});
  }
}

}  // namespace

template <typename T>
RingCollective<T>::RingCollective(const Team& team, const CollectiveOptions& options)
    : team_(team),
      options_(options),
      blocks_(has_blocks(options.kind) ? static_cast<std::size_t>(team.world()) : 1),
      connections_(*team.communicator),
      input_(options.bytes_max),
      output_(options.bytes_max) {}

template <typename T>
RingCollective<T>::~RingCollective() {
  driver::ProgressThread& progress = team_.communicator->progress();
  for (Channel& channel : channels_) {
    progress.detach(*channel.ring);
    progress.detach(*channel.previous);
    progress.detach(*channel.next);
    channel.send_memory.release();
    channel.recv_memory.release();
  }
}

template <typename T>
int RingCollective<T>::open(std::string& error) {
  const int world = team_.world();
  driver::ConnectionPlan plan;
  plan.send_to = {(team_.rank() + 1) % world};
  plan.recv_from = {(team_.rank() + world - 1) % world};
  plan.channels = team_.channels;
  plan.timeout = std::min(team_.timeout, kConnectPatience);
  int result = connections_.connect(*team_.bootstrap, plan);
  for (int channel = 0; channel < team_.channels && result == driver::kNetSuccess; ++channel)
    result = add_channel(channel);
  if (result != driver::kNetSuccess)
    error = std::string("connecting the ring failed: ") + driver::net_result_name(result);
  return result;
}

template <typename T>
int RingCollective<T>::add_channel(int channel) {
  Channel added;
  void* send_comm = connections_.send(0, channel);
  void* recv_comm = connections_.recv(0, channel);
  added.send_memory =
      driver::Registered(*team_.communicator, send_comm, kRingSlots * kRingSlotBytes);
  added.recv_memory =
      driver::Registered(*team_.communicator, recv_comm, kRingSlots * kRingSlotBytes);
  if (added.send_memory.result() != driver::kNetSuccess) return added.send_memory.result();
  if (added.recv_memory.result() != driver::kNetSuccess) return added.recv_memory.result();
  driver::NetApi& api = team_.communicator->api();
  added.next = std::make_unique<driver::Pipe>(
      api, driver::PipeOptions{.side = driver::Side::Send, .comm = send_comm});
  added.previous = std::make_unique<driver::Pipe>(
      api, driver::PipeOptions{.side = driver::Side::Recv, .comm = recv_comm});
  const RingWires wires{added.next.get(),
                        added.previous.get(),
                        added.send_memory.piece(0, 0),
                        added.recv_memory.piece(0, 0),
                        added.send_memory.data(),
                        added.recv_memory.data()};
  added.ring = std::make_unique<RingChannel<T>>(
      RingOperation{options_.kind, options_.reduction, options_.root, team_.rank(), team_.world()},
      wires);
  driver::ProgressThread& progress = team_.communicator->progress();
  progress.attach(*added.ring);
  progress.attach(*added.previous);
  progress.attach(*added.next);
  channels_.push_back(std::move(added));
  return driver::kNetSuccess;
}

template <typename T>
double RingCollective<T>::bus_factor() const {
  if (has_root(options_.kind)) return 1.0;
  const double share = (team_.world() - 1.0) / team_.world();
  return options_.kind == Kind::AllReduce ? 2 * share : share;
}

template <typename T>
bool RingCollective<T>::set_placement(Placement placement) {
  placement_ = placement;
  return true;
}

template <typename T>
T* RingCollective<T>::input() const {
  return reinterpret_cast<T*>((placement_ == Placement::InPlace ? output_ : input_).data());
}

template <typename T>
int RingCollective<T>::run(std::size_t count, int iterations) {
  const std::size_t part = (count + channels_.size() - 1) / channels_.size();
  for (std::size_t i = 0; i < channels_.size(); ++i) {
    RingWork<T> work;
    work.input = input();
    work.output = reinterpret_cast<T*>(output_.data());
    work.begin = std::min(count, i * part);
    work.end = std::min(count, work.begin + part);
    work.block = blocks_ > 1 ? count : 0;
    work.iterations = iterations;
    channels_[i].ring->start(work);
  }
  return team_.communicator->progress().wait_idle(team_.timeout);
}

template <typename T>
typename RingCollective<T>::Span RingCollective<T>::own_block(std::size_t count) const {
  const std::size_t begin = count * static_cast<std::size_t>(team_.rank());
  return {begin, begin + count};
}

template <typename T>
typename RingCollective<T>::Span RingCollective<T>::filled(std::size_t count) const {
  if (options_.kind == Kind::AllGather) return own_block(count);
  if (options_.kind == Kind::Broadcast && team_.rank() != options_.root) return {};
  return {0, count * blocks_};
}

template <typename T>
typename RingCollective<T>::Span RingCollective<T>::expected(std::size_t count) const {
  if (options_.kind == Kind::ReduceScatter) return own_block(count);
  if (options_.kind == Kind::Reduce && team_.rank() != options_.root) return {};
  return {0, count * blocks_};
}

template <typename T>
T RingCollective<T>::expected_at(std::size_t index, std::size_t count, std::uint64_t round) const {
  const auto value = [&](int rank) { return value_at<T>(options_.reduction, index, rank, round); };
  if (options_.kind == Kind::AllGather) return value(static_cast<int>(index / count));
  if (options_.kind == Kind::Broadcast) return value(options_.root);
  T all = value(0);
  for (int rank = 1; rank < team_.world(); ++rank) {
    const T one = value(rank);
    reduce(options_.reduction, std::span(&all, 1), &all, &one);
  }
  return all;
}

template <typename T>
std::size_t RingCollective<T>::wrong_elements(std::size_t count, std::uint64_t round) const {
  const T* output = reinterpret_cast<const T*>(output_.data());
  const Span span = expected(count);
  std::size_t wrong = 0;
  for (std::size_t i = span.begin; i < span.end; ++i) {
    const T wanted = expected_at(i, count, round);
    if (output[i] == wanted) continue;
    if (wrong++ == 0) {
      std::fprintf(stderr, "mesh_perf: rank %d: element %zu is %g, not %g\n", team_.rank(), i,
                   static_cast<double>(static_cast<Ordered<T>>(output[i])),
                   static_cast<double>(static_cast<Ordered<T>>(wanted)));
    }
  }
  return wrong;
}

template <typename T>
int RingCollective<T>::check(std::size_t count, std::uint64_t round, std::size_t& wrong) {
  std::memset(output_.data(), 0xff, size_of(count));
  T* to = input();
  const Span span = filled(count);
  for (std::size_t i = span.begin; i < span.end; ++i)
    to[i] = value_at<T>(options_.reduction, i, team_.rank(), round);
  const int result = run(count, 1);
  if (result == driver::kNetSuccess) wrong += wrong_elements(count, round);
  return result;
}

template class RingCollective<std::uint8_t>;
template class RingCollective<std::int32_t>;
template class RingCollective<std::int64_t>;
template class RingCollective<Half>;
template class RingCollective<Bfloat16>;
template class RingCollective<float>;
template class RingCollective<double>;

}  // namespace mesh::perf
