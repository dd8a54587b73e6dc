#include "perf/driver/connection_set.h"

#include <cstring>
#include <optional>
#include <utility>

namespace mesh::driver {
namespace {

// What a listener tells the rank that is to connect.
struct Offer {
  std::int32_t from = 0;
  std::int32_t channel = 0;
  NetHandle handle{};
};
static_assert(sizeof(Offer) == 8 + kNetHandleBytes);

std::optional<NetHandle> find_offer(const std::string& offers, int from, int channel) {
  Offer offer;
  for (std::size_t at = 0; at + sizeof(offer) <= offers.size(); at += sizeof(offer)) {
    std::memcpy(&offer, offers.data() + at, sizeof(offer));
    if (offer.from == from && offer.channel == channel) return offer.handle;
  }
  return std::nullopt;
}

using Pending = std::vector<std::future<CommOutcome>>;

int collect(Pending& pending, std::vector<void*>& comms) {
  int first_failure = kNetSuccess;
  for (std::future<CommOutcome>& outcome : pending) {
    const CommOutcome end = outcome.get();
    if (first_failure == kNetSuccess) first_failure = end.result;
    comms.push_back(end.comm);
  }
  return first_failure;
}

}  // namespace

int ConnectionSet::listen_for_all(const ConnectionPlan& plan, std::string& offers) {
  for (const int from : plan.recv_from) {
    for (int channel = 0; channel < plan.channels; ++channel) {
      Listening listening;
      const int result = communicator_.listen(listening);
      if (result != kNetSuccess) return result;
      listens_.push_back(listening.comm);
      const Offer offer{from, channel, listening.handle};
      offers.append(reinterpret_cast<const char*>(&offer), sizeof(offer));
    }
  }
  return kNetSuccess;
}

int ConnectionSet::connect_all(const ConnectionPlan& plan, int own_rank, const std::vector<std::string>& offers) {
  Pending connects, accepts;
  int result = kNetSuccess;
  for (const int to : plan.send_to) {
    for (int channel = 0; channel < plan.channels; ++channel) {
      const auto handle = find_offer(offers[static_cast<std::size_t>(to)], own_rank, channel);
      if (!handle) return kNetInvalidUsage;
      connects.push_back(communicator_.start_connect(*handle, plan.timeout));
    }
  }
  for (void* listen_comm : listens_) accepts.push_back(communicator_.start_accept(listen_comm, plan.timeout));
  result = collect(connects, sends_);
  const int accepted = collect(accepts, recvs_);
  // accept closed its listener; what was not accepted we close.
  for (std::size_t i = 0; i < listens_.size(); ++i) {
    if (recvs_[i] == nullptr) communicator_.close_listen(listens_[i]);
  }
  listens_.clear();
  return result != kNetSuccess ? result : accepted;
}

int ConnectionSet::connect(Bootstrap& bootstrap, const ConnectionPlan& plan) {
  channels_ = plan.channels;
  std::string offers;
  const int result = listen_for_all(plan, offers);
  if (result != kNetSuccess) return result;
  auto everyones = bootstrap.all_gather(offers);
  if (!everyones.ok()) return kDriverTimeout;
  return connect_all(plan, bootstrap.rank(), *everyones);
}

int ConnectionSet::close() {
  int first_failure = kNetSuccess;
  const auto note = [&](int result) {
    if (first_failure == kNetSuccess) first_failure = result;
  };
  for (void* comm : std::exchange(listens_, {})) note(communicator_.close_listen(comm));
  for (void* comm : std::exchange(sends_, {})) note(communicator_.close_send(comm));
  for (void* comm : std::exchange(recvs_, {})) note(communicator_.close_recv(comm));
  return first_failure;
}

}  // namespace mesh::driver
