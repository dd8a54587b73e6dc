#include "perf/collectives/ring_all_reduce.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace mesh::perf {
namespace {

// Returns a small whole number that differs by place, rank and round. Sums are exact in every type
// for up to 256 ranks, except in uint8, which wraps in the same way everywhere.
std::uint32_t value_at(std::size_t index, int rank, std::uint64_t round) {
  const std::uint64_t mixed = (index + 1) * 0x9e3779b97f4a7c15u +
                              static_cast<std::uint64_t>(rank) * 0xbf58476d1ce4e5b9u + round;
  return static_cast<std::uint32_t>((mixed ^ (mixed >> 29)) >> 16) & 0xffff;
}

}  // namespace

template <typename T>
RingAllReduce<T>::RingAllReduce(const Team& team, std::size_t bytes_max)
    : team_(team), connections_(*team.communicator), input_(bytes_max), output_(bytes_max) {}

template <typename T>
RingAllReduce<T>::~RingAllReduce() {
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
int RingAllReduce<T>::open(std::string& error) {
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
int RingAllReduce<T>::add_channel(int channel) {
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
  added.ring = std::make_unique<RingChannel<T>>(RingPlace{team_.rank(), team_.world()}, wires);
  driver::ProgressThread& progress = team_.communicator->progress();
  progress.attach(*added.ring);
  progress.attach(*added.previous);
  progress.attach(*added.next);
  channels_.push_back(std::move(added));
  return driver::kNetSuccess;
}

template <typename T>
int RingAllReduce<T>::run(std::size_t count, int iterations) {
  const std::size_t part = (count + channels_.size() - 1) / channels_.size();
  for (std::size_t i = 0; i < channels_.size(); ++i) {
    RingWork<T> work;
    work.input = reinterpret_cast<const T*>(input_.data());
    work.output = reinterpret_cast<T*>(output_.data());
    work.begin = std::min(count, i * part);
    work.end = std::min(count, work.begin + part);
    work.iterations = iterations;
    channels_[i].ring->start(work);
  }
  return team_.communicator->progress().wait_idle(team_.timeout);
}

template <typename T>
std::size_t RingAllReduce<T>::wrong_elements(std::size_t count, std::uint64_t round) const {
  const T* output = reinterpret_cast<const T*>(output_.data());
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < count; ++i) {
    std::uint64_t sum = 0;
    for (int rank = 0; rank < team_.world(); ++rank) sum += value_at(i, rank, round);
    const T expected = static_cast<T>(sum);
    if (output[i] == expected) continue;
    if (wrong++ == 0) {
      std::fprintf(stderr, "mesh_perf: rank %d: element %zu is %.0f, not %.0f\n", team_.rank(), i,
                   static_cast<double>(output[i]), static_cast<double>(expected));
    }
  }
  return wrong;
}

template <typename T>
int RingAllReduce<T>::check(std::size_t count, std::uint64_t round, std::size_t& wrong) {
  T* input = reinterpret_cast<T*>(input_.data());
  for (std::size_t i = 0; i < count; ++i)
    input[i] = static_cast<T>(value_at(i, team_.rank(), round));
  std::memset(output_.data(), 0xff, count * sizeof(T));
  const int result = run(count, 1);
  if (result == driver::kNetSuccess) wrong += wrong_elements(count, round);
  return result;
}

template class RingAllReduce<std::uint8_t>;
template class RingAllReduce<std::int32_t>;
template class RingAllReduce<std::int64_t>;
template class RingAllReduce<float>;
template class RingAllReduce<double>;

}  // namespace mesh::perf
