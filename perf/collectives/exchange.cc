#include "perf/collectives/exchange.h"

#include "perf/collectives/slots.h"

#include <algorithm>
#include <cstdio>

namespace mesh::perf {
namespace {

// The memory of one flow, unless a single message needs more.
constexpr std::size_t kFlowBytesMax = std::size_t{64} << 20;

}  // namespace

Exchange::Exchange(const Team& team, const CollectiveOptions& options)
    : team_(team), options_(options), connections_(*team.communicator) {
  const int world = team.world();
  plan_.channels = team.channels;
  plan_.timeout = team.connect_timeout();
  if (options.direction == Direction::OneWay) {
    (team.rank() == 0 ? plan_.send_to : plan_.recv_from).push_back(1 - team.rank());
  } else if (options.kind == Kind::SendRecv) {
    plan_.send_to.push_back((team.rank() + 1) % world);
    plan_.recv_from.push_back((team.rank() + world - 1) % world);
  } else {
    // The order is shifted by our rank, so that not all ranks begin with the same peer.
    for (int step = 0; step < world; ++step) {
      plan_.send_to.push_back((team.rank() + step) % world);
      plan_.recv_from.push_back((team.rank() + world - step) % world);
    }
  }
}

Exchange::~Exchange() {
  for (std::vector<Flow>* flows : {&sends_, &recvs_}) {
    for (Flow& flow : *flows) {
      team_.communicator->progress().detach(*flow.repeat);
      team_.communicator->progress().detach(*flow.pipe);
      flow.memory.release();
    }
  }
}

int Exchange::open(std::string& error) {
  int result = connections_.connect(*team_.bootstrap, plan_);
  for (int channel = 0; channel < team_.channels && result == driver::kNetSuccess; ++channel) {
    for (std::size_t i = 0; i < plan_.send_to.size() && result == driver::kNetSuccess; ++i) {
      result = add_flow(sends_, driver::Side::Send, i, channel);
    }
    for (std::size_t i = 0; i < plan_.recv_from.size() && result == driver::kNetSuccess; ++i) {
      result = add_flow(recvs_, driver::Side::Recv, i, channel);
    }
  }
  if (result != driver::kNetSuccess)
    error = std::string("connecting failed: ") + driver::net_result_name(result);
  return result;
}

int Exchange::add_flow(std::vector<Flow>& flows, driver::Side side, std::size_t peer, int channel) {
  const bool sending = side == driver::Side::Send;
  void* comm = sending ? connections_.send(peer, channel) : connections_.recv(peer, channel);
  const std::size_t bytes = message_bytes(count_for(options_.bytes_max));
  Flow flow;
  flow.side = side;
  flow.channel = channel;
  flow.peer = sending ? plan_.send_to[peer] : plan_.recv_from[peer];
  const std::size_t room = std::max(
      options_.outstanding * stride_of(std::min(bytes, kFlowBytesMax / options_.outstanding)),
      stride_of(bytes));
  flow.memory = driver::Registered(*team_.communicator, comm, room);
  if (flow.memory.result() != driver::kNetSuccess) return flow.memory.result();
  flow.pipe = std::make_unique<driver::Pipe>(
      team_.communicator->api(),
      driver::PipeOptions{.side = side, .comm = comm, .depth = options_.outstanding});
  flow.repeat = std::make_unique<Repeat>(*flow.pipe);
  team_.communicator->progress().attach(*flow.repeat);
  team_.communicator->progress().attach(*flow.pipe);
  flows.push_back(std::move(flow));
  return driver::kNetSuccess;
}

std::size_t Exchange::count_for(std::size_t bytes) const {
  const std::size_t element = info(options_.type).bytes;
  if (options_.kind == Kind::SendRecv) return bytes / element;
  return bytes / element /
         static_cast<std::size_t>(team_.world());  // per peer, as nccl-tests counts
}

std::size_t Exchange::size_of(std::size_t count) const {
  const std::size_t bytes = count * info(options_.type).bytes;
  return options_.kind == Kind::SendRecv ? bytes : bytes * static_cast<std::size_t>(team_.world());
}

double Exchange::bus_factor() const {
  const double world = team_.world();
  return options_.kind == Kind::SendRecv ? 1.0 : (world - 1) / world;
}

// A message is one channel's part of the data for one peer.
std::size_t Exchange::message_bytes(std::size_t count) const {
  return count * info(options_.type).bytes / static_cast<std::size_t>(team_.channels);
}

std::uint32_t Exchange::slots_for(std::size_t bytes) const {
  const std::size_t fit = kFlowBytesMax / stride_of(bytes);
  return static_cast<std::uint32_t>(std::clamp<std::size_t>(fit, 1, options_.outstanding));
}

int Exchange::run(std::size_t count, int iterations) {
  const std::size_t bytes = message_bytes(count);
  for (std::vector<Flow>* flows : {&recvs_, &sends_}) {
    for (Flow& flow : *flows) {
      flow.repeat->start({.first = flow.memory.piece(0, bytes),
                          .stride = stride_of(bytes),
                          .slots = slots_for(bytes)},
                         static_cast<std::uint64_t>(iterations));
    }
  }
  return team_.communicator->progress().wait_idle(team_.timeout);
}

driver::PatternKey Exchange::key(const Flow& flow, std::uint64_t message) const {
  const bool sending = flow.side == driver::Side::Send;
  const int sender = sending ? team_.rank() : flow.peer;
  const int receiver = sending ? flow.peer : team_.rank();
  const auto seed =
      static_cast<std::uint64_t>(flow.channel) * static_cast<std::uint64_t>(team_.world()) +
      static_cast<std::uint64_t>(receiver);
  return {.seed = seed, .sender = static_cast<std::uint32_t>(sender), .message = message};
}

void Exchange::fill(std::size_t bytes, std::uint64_t round) {
  for (const Flow& flow : sends_) {
    for (std::uint32_t slot = 0; slot < slots_for(bytes); ++slot) {
      driver::fill_pattern(key(flow, round * options_.outstanding + slot),
                           flow.memory.data() + slot * stride_of(bytes), bytes);
    }
  }
}

std::size_t Exchange::wrong_elements(std::size_t bytes, std::uint64_t round) const {
  const std::size_t element = info(options_.type).bytes;
  std::size_t wrong = 0;
  for (const Flow& flow : recvs_) {
    for (std::uint32_t slot = 0; slot < slots_for(bytes); ++slot) {
      const char* data = flow.memory.data() + slot * stride_of(bytes);
      const driver::PatternKey expected = key(flow, round * options_.outstanding + slot);
      const driver::PatternVerdict verdict = driver::check_pattern(expected, data, bytes);
      if (verdict.good()) continue;
      std::fprintf(stderr, "mesh_perf: rank %d: %s\n", team_.rank(),
                   driver::describe(verdict, expected, data, bytes).c_str());
      wrong += (verdict.wrong_bytes + element - 1) / element;
    }
  }
  return wrong;
}

int Exchange::check(std::size_t count, std::uint64_t round, std::size_t& wrong) {
  const std::size_t bytes = message_bytes(count);
  fill(bytes, round);
  const int result = run(count, static_cast<int>(slots_for(bytes)));
  if (result != driver::kNetSuccess) return result;
  wrong += wrong_elements(bytes, round);
  for (const Flow& flow : recvs_) {
    if (flow.pipe->bytes_of(flow.pipe->completed() - 1) != bytes) ++wrong;
  }
  return driver::kNetSuccess;
}

}  // namespace mesh::perf
