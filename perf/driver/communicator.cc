#include "perf/driver/communicator.h"

#include <utility>

namespace mesh::driver {
namespace {

using SteadyClock = std::chrono::steady_clock;

// One open connect or accept. NCCL keeps the handle in a heap copy of its own and shows the same
// bytes at every call.
struct Attempt {
  NetHandle handle{};
  SteadyClock::time_point deadline;
  const std::atomic<std::uint64_t>& era;
  std::uint64_t begun_in;
  std::promise<CommOutcome> answer;

  Attempt(milliseconds timeout, const std::atomic<std::uint64_t>& eras)
      : deadline(SteadyClock::now() + timeout),
        era(eras),
        begun_in(eras.load(std::memory_order_relaxed)) {}

  // Returns true if the attempt has ended, in success or failure.
  bool settle(int result, void* comm) {
    if (result == kNetSuccess && comm == nullptr) {
      if (SteadyClock::now() < deadline && era.load(std::memory_order_relaxed) == begun_in)
        return false;
      result = kDriverTimeout;
    }
    answer.set_value({result, comm});
    return true;
  }
};

}  // namespace

Communicator::Communicator(NetApi& api, const CommunicatorOptions& options)
    : api_(api), options_(options) {}

Communicator::~Communicator() { close(); }

int Communicator::open() {
  int result = api_.init(options_.id, &context_);
  if (result != kNetSuccess) return result;
  open_ = true;
  result = api_.devices(&device_count_);
  if (result != kNetSuccess) return result;
  if (device_count_ > 0) device_ = options_.device % device_count_;
  result = api_.properties(device_, &properties_);
  if (result != kNetSuccess) return result;
  service_ = std::make_unique<ServiceThread>();
  progress_ = std::make_unique<ProgressThread>();
  return kNetSuccess;
}

int Communicator::close() {
  if (progress_ != nullptr) progress_->stop();
  service_.reset();
  if (!std::exchange(open_, false)) return kNetSuccess;
  return api_.finalize(std::exchange(context_, nullptr));
}

int Communicator::on_service(const std::function<int()>& work) {
  return service_ != nullptr ? service_->call(work) : kNetInvalidUsage;
}

int Communicator::listen(Listening& listening) {
  return on_service([&] {
    NetProperties properties;
    const int result = api_.properties(device_, &properties);
    if (result != kNetSuccess) return result;
    listening.handle.fill(std::byte{0});
    return api_.listen(context_, device_, listening.handle.data(), &listening.comm);
  });
}

std::future<CommOutcome> Communicator::start_connect(const NetHandle& remote,
                                                     milliseconds timeout) {
  // The attempt is shared, because std::function must be copyable.
  auto attempt = std::make_shared<Attempt>(timeout, attempts_era_);
  attempt->handle = remote;
  std::future<CommOutcome> outcome = attempt->answer.get_future();
  service_->post([this, attempt] {
    void* comm = nullptr;
    const int result = api_.connect(context_, device_, attempt->handle.data(), &comm);
    return attempt->settle(result, comm);
  });
  return outcome;
}

std::future<CommOutcome> Communicator::start_accept(void* listen_comm, milliseconds timeout) {
  auto attempt = std::make_shared<Attempt>(timeout, attempts_era_);
  std::future<CommOutcome> outcome = attempt->answer.get_future();
  service_->post([this, attempt, listen_comm] {
    void* comm = nullptr;
    const int result = api_.accept(listen_comm, &comm);
    if (result == kNetSuccess && comm != nullptr) api_.close_listen(listen_comm);
    return attempt->settle(result, comm);
  });
  return outcome;
}

}  // namespace mesh::driver
