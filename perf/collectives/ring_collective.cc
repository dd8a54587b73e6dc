#include "perf/collectives/ring_collective.h"

#include "perf/collectives/element.h"

#include <algorithm>

namespace mesh::perf {

template <typename T>
RingCollective<T>::RingCollective(const Team& team, const CollectiveOptions& options)
    : team_(team), options_(options), arrays_(team, options), connections_(*team.communicator) {}

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
  plan.timeout = team_.connect_timeout();
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
int RingCollective<T>::run(std::size_t count, int iterations) {
  const std::size_t part = (count + channels_.size() - 1) / channels_.size();
  for (std::size_t i = 0; i < channels_.size(); ++i) {
    RingWork<T> work;
    work.input = arrays_.input();
    work.output = arrays_.output();
    work.begin = std::min(count, i * part);
    work.end = std::min(count, work.begin + part);
    work.block = arrays_.blocks() > 1 ? count : 0;
    work.iterations = iterations;
    channels_[i].ring->start(work);
  }
  return team_.communicator->progress().wait_idle(team_.timeout);
}

template <typename T>
int RingCollective<T>::check(std::size_t count, std::uint64_t round, std::size_t& wrong) {
  arrays_.fill(count, round);
  const int result = run(count, 1);
  if (result == driver::kNetSuccess) wrong += arrays_.wrong_elements(count, round);
  return result;
}

MESH_OF_EACH_ELEMENT(RingCollective)

}  // namespace mesh::perf
