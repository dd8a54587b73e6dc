#include "perf/driver/connection_set.h"

#include <cstring>
#include <optional>
#include <utility>

namespace mesh::driver {
namespace {

// The data that a listener sends to the rank that connects.
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

struct Collected {
  std::vector<void*>& comms;
  int first_failure = kNetSuccess;
};

// Takes finished connections off the front. Returns true if none is left.
bool collect_ready(Pending& pending, Collected& collected) {
  std::size_t ready = 0;
  while (ready < pending.size() &&
         pending[ready].wait_for(milliseconds(0)) == std::future_status::ready) {
    const CommOutcome end = pending[ready++].get();
    if (collected.first_failure == kNetSuccess) collected.first_failure = end.result;
    collected.comms.push_back(end.comm);
  }
  pending.erase(pending.begin(), pending.begin() + static_cast<std::ptrdiff_t>(ready));
  if (!pending.empty()) pending.front().wait_for(milliseconds(1));
  return pending.empty();
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

int ConnectionSet::connect_all(const ConnectionPlan& plan, int own_rank,
                               const std::vector<std::string>& offers) {
  Pending connects, accepts;
  for (const int to : plan.send_to) {
    for (int channel = 0; channel < plan.channels; ++channel) {
      const auto handle = find_offer(offers[static_cast<std::size_t>(to)], own_rank, channel);
      if (!handle) return kNetInvalidUsage;
      connects.push_back(communicator_.start_connect(*handle, plan.timeout));
    }
  }
  for (void* listen_comm : listens_)
    accepts.push_back(communicator_.start_accept(listen_comm, plan.timeout));
  Collected sends{sends_}, recvs{recvs_};
  for (bool done = false; !done;) {
    done = collect_ready(connects, sends);
    done = collect_ready(accepts, recvs) && done;
    // One failure ends all attempts, because the others may wait for something that never comes.
    if (sends.first_failure != kNetSuccess || recvs.first_failure != kNetSuccess)
      communicator_.abandon_attempts();
  }
  // accept has closed its listener. We close the listeners without an accept.
  for (std::size_t i = 0; i < listens_.size(); ++i) {
    if (recvs_[i] == nullptr) communicator_.close_listen(listens_[i]);
  }
  listens_.clear();
  return sends.first_failure != kNetSuccess ? sends.first_failure : recvs.first_failure;
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
