#include "perf/driver/coll_comm.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace mesh::driver {
namespace {

constexpr std::uint64_t kCommId = 1;

int code(ncclResult_t result) noexcept { return static_cast<int>(result); }

}  // namespace

int CollComm::open(Bootstrap& bootstrap, const CollReduction& reduction, std::string& error) {
  table_ = communicator_.api().collnet();
  error = "the plugin has no CollNet of version 12";
  if (table_ == nullptr) return kNetInvalidUsage;
  error = "init of CollNet failed";
  int result = code(table_->init(&context_, kCommId, NetApi::logger()));
  if (result != kNetSuccess) return result;
  error = "the members do not connect";
  result = join(bootstrap);
  if (result != kNetSuccess) return result;
  error = "a member has no group; the plugin's warning says why";
  result = vote(bootstrap, reduction);
  if (result == kNetSuccess) error.clear();
  return result;
}

int CollComm::join(Bootstrap& bootstrap) {
  NetHandle own{};
  void* listener = nullptr;
  int result = communicator_.service().call(
      [&] { return code(table_->listen(context_, 0, own.data(), &listener)); });
  if (result != kNetSuccess) return result;
  auto all = bootstrap.all_gather({reinterpret_cast<const char*>(own.data()), own.size()});
  if (!all.ok()) return kDriverTimeout;
  std::vector<void*> handles;
  handles.reserve(all->size());
  for (std::string& handle : *all) {
    if (handle.size() != own.size()) return kNetInternalError;
    handles.push_back(handle.data());
  }
  return communicator_.service().call([&] {
    ncclResult_t joined =
        table_->connect(handles.data(), bootstrap.world(), bootstrap.rank(), listener, &comm_);
    if (joined == ncclSuccess) joined = table_->closeListen(listener);
    // Registrations of CollNet's are for nothing but their place in NCCL's order.
    if (joined == ncclSuccess)
      joined = table_->regMr(comm_, own.data(), own.size(), NCCL_PTR_HOST, &mhandle_);
    return code(joined);
  });
}

// NCCL gathers the answers of all members, and one no holds for all.
int CollComm::vote(Bootstrap& bootstrap, const CollReduction& reduction) {
  int supported = 0;
  const int result = code(table_->reduceSupport(reduction.type, reduction.operation, &supported));
  if (result != kNetSuccess) return result;
  const auto votes = bootstrap.all_gather(supported == 1 ? "yes" : "no");
  if (!votes.ok()) return kDriverTimeout;
  const bool all = std::all_of(votes->begin(), votes->end(),
                               [](const std::string& each) { return each == "yes"; });
  return all ? kNetSuccess : kNetInvalidUsage;
}

int CollComm::close() {
  int result = kNetSuccess;
  if (comm_ != nullptr) {
    result = communicator_.service().call([&] {
      const ncclResult_t ended = table_->deregMr(comm_, mhandle_);
      return std::max(code(ended), code(table_->closeColl(std::exchange(comm_, nullptr))));
    });
  }
  if (context_ != nullptr)
    result = std::max(result, code(table_->finalize(std::exchange(context_, nullptr))));
  return result;
}

int CollComm::start(const CollWork& work, void** request) {
  return code(table_->iallreduce(comm_, work.send, work.receive, work.count, work.reduction.type,
                                 work.reduction.operation, mhandle_, mhandle_, request));
}

int CollComm::test(void* request, int* done) { return code(table_->test(request, done, nullptr)); }

}  // namespace mesh::driver
