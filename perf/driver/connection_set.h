#pragma once
// All connections of one communicator, made at once in NCCL's order: listen for every one to come,
// exchange the handles, then connect and accept turn by turn on the service thread. Thread: one
// owner. Bound: the timeout covers the whole set.

#include "perf/driver/bootstrap.h"
#include "perf/driver/communicator.h"

#include <string>
#include <vector>

namespace mesh::driver {

// Every rank must ask for the connections that the other ranks expect of it.
struct ConnectionPlan {
  std::vector<int> send_to, recv_from;  // ranks; one connection each, for every channel
  int channels = 1;
  milliseconds timeout{30000};
};

class ConnectionSet {
 public:
  explicit ConnectionSet(Communicator& communicator) : communicator_(communicator) {}
  ~ConnectionSet() { close(); }
  ConnectionSet(const ConnectionSet&) = delete;
  ConnectionSet& operator=(const ConnectionSet&) = delete;

  // Returns an ncclResult_t: the first failure. A rank lost meanwhile is kDriverTimeout, too.
  int connect(Bootstrap& bootstrap, const ConnectionPlan& plan);
  int close();  // returns the first failure

  // The comms by place in the plan and channel.
  void* send(std::size_t peer, int channel = 0) const { return sends_[index(peer, channel)]; }
  void* recv(std::size_t peer, int channel = 0) const { return recvs_[index(peer, channel)]; }

 private:
  std::size_t index(std::size_t peer, int channel) const {
    return peer * static_cast<std::size_t>(channels_) + static_cast<std::size_t>(channel);
  }
  int listen_for_all(const ConnectionPlan& plan, std::string& offers);
  int connect_all(const ConnectionPlan& plan, int own_rank, const std::vector<std::string>& offers);

  Communicator& communicator_;
  int channels_ = 1;
  std::vector<void*> listens_, sends_, recvs_;
};

}  // namespace mesh::driver
