#pragma once
// A communicator of a rank with its net and its CollNet, called in NCCL's order. Thread: the
// scenario's. Bound: every wait ends after patience().

#include "plugin/nccl/collnet.h"
#include "tests/e2e/scenario.h"

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

namespace mesh::e2e {

using Values = std::vector<std::int32_t>;

inline constexpr int kInt32 = 2, kSum = 0;
inline constexpr std::uint64_t kComm = 99;

inline void succeed(ncclResult_t result, const char* call) {
  require_success(static_cast<int>(result), call);
}

class OneShotJob {
 public:
  explicit OneShotJob(Peer& peer) : peer_(peer), net_(peer.load()), table_(net_->collnet()) {
    require(table_ != nullptr, "there is no CollNet");
    require_success(net_->init(kComm, &net_context_), "init of the net");
    succeed(table_->init(&context_, kComm, nullptr), "init");
    join();
  }
  // Ends as NCCL does: the group, the net, the CollNet.
  void end() {
    succeed(table_->closeColl(comm_), "closeColl");
    require_success(net_->finalize(net_context_), "finalize of the net");
    succeed(table_->finalize(context_), "finalize");
  }
  // Returns true if every member can use its group, as NCCL gathers it.
  bool all_vote_yes() {
    int supported = -1;
    succeed(table_->reduceSupport(kInt32, kSum, &supported), "reduceSupport");
    bool all = true;
    for (const std::string& vote : peer_.all_gather(supported == 1 ? "y" : "n"))
      all = all && vote == "y";
    return all;
  }

  void* start(Values& send, Values& receive) {
    void* request = nullptr;
    const auto end = std::chrono::steady_clock::now() + patience();
    while (request == nullptr) {
      require(std::chrono::steady_clock::now() < end, "iallreduce finds no room");
      succeed(table_->iallreduce(comm_, send.data(), receive.data(), send.size(), kInt32, kSum,
                                 mhandle_, mhandle_, &request),
              "iallreduce");
    }
    return request;
  }
  // Returns the result of the call that ends the request, or 0 and no end within `wait`.
  int finish(void* request, std::chrono::milliseconds wait, int* done) {
    const auto end = std::chrono::steady_clock::now() + wait;
    *done = 0;
    while (*done == 0 && std::chrono::steady_clock::now() < end) {
      const int result = static_cast<int>(table_->test(request, done, nullptr));
      if (result != 0) return result;
    }
    return 0;
  }
  void await(void* request) {
    int done = 0;
    require_success(finish(request, patience(), &done), "test");
    require(done == 1, "an all-reduce is not done in time");
  }

  // Reduces a message of `count` elements.
  void reduce(std::size_t count) {
    Values send = input(count), receive(count, -1);
    await(start(send, receive));
    check(receive);
  }
  // Returns a message of which rank r has first + r, first + r + 1, and so on.
  Values input(std::size_t count, int first = 0) const {
    Values values(count);
    std::iota(values.begin(), values.end(), first + peer_.rank());
    return values;
  }
  void check(const Values& receive, int first = 0) const {
    const int world = peer_.world();
    for (std::size_t i = 0; i < receive.size(); ++i) {
      const int wanted = world * (first + static_cast<int>(i)) + world * (world - 1) / 2;
      if (receive[i] == wanted) continue;  // a text for each element would take seconds
      require(false, "element " + std::to_string(i) + " is " + std::to_string(receive[i]) +
                         " instead of " + std::to_string(wanted));
    }
  }

 private:
  void join() {
    std::array<char, kNetHandle> handle{};
    void* listener = nullptr;
    succeed(table_->listen(context_, 0, handle.data(), &listener), "listen");
    std::vector<std::string> all = peer_.all_gather(std::string(handle.data(), handle.size()));
    std::vector<void*> handles;
    handles.reserve(all.size());
    for (std::string& each : all) handles.push_back(each.data());
    succeed(table_->connect(handles.data(), peer_.world(), peer_.rank(), listener, &comm_),
            "connect");
    succeed(table_->closeListen(listener), "closeListen");
    succeed(table_->regMr(comm_, handle.data(), handle.size(), NCCL_PTR_HOST, &mhandle_), "regMr");
  }
  static constexpr std::size_t kNetHandle = 128;

  Peer& peer_;
  std::unique_ptr<driver::NetApi> net_;
  const ncclCollNet_v12_t* const table_;
  void* net_context_ = nullptr;
  void* context_ = nullptr;
  void* comm_ = nullptr;
  void* mhandle_ = nullptr;
};

}  // namespace mesh::e2e
