#pragma once
// One NCCL communicator of one rank: the plugin's context, a service thread, a progress thread, and
// the calls in NCCL's order. The destructor closes what is still open, in the order of a normal
// destroy. Thread: one owner. Waits are bounded by the timeouts given.

#include "perf/driver/net_api.h"
#include "perf/driver/progress_thread.h"
#include "perf/driver/service_thread.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>

namespace mesh::driver {

using std::chrono::milliseconds;

struct CommunicatorOptions {
  std::uint64_t id = 0;
  int device = 0;  // counted from the first again where there are fewer
};

// A listen comm and the handle that travels to the peer.
struct Listening {
  void* comm = nullptr;
  NetHandle handle{};
};

// How a non-blocking operation ended.
struct CommOutcome {
  int result = kNetSuccess;
  void* comm = nullptr;
};

class Communicator {
 public:
  Communicator(NetApi& api, const CommunicatorOptions& options);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int open();   // init, devices, properties(0)
  int close();  // stops progress, then service, then finalize

  NetApi& api() noexcept { return api_; }
  void* context() const noexcept { return context_; }
  int device_count() const noexcept { return device_count_; }
  const NetProperties& properties() const noexcept { return properties_; }
  // Both threads are stopped by close(), and exist as long as this object.
  ProgressThread& progress() noexcept { return *progress_; }
  ServiceThread& service() noexcept { return *service_; }

  // The service thread makes these calls, and the caller waits for each.
  int listen(Listening& listening);
  int close_listen(void* comm) {
    return on_service([&] { return api_.close_listen(comm); });
  }
  int close_send(void* comm) {
    return on_service([&] { return api_.close_send(comm); });
  }
  int close_recv(void* comm) {
    return on_service([&] { return api_.close_recv(comm); });
  }
  int reg_mr(void* comm, const NetRegion& region, void** mhandle) {
    return on_service([&] { return api_.reg_mr(comm, region, mhandle); });
  }
  int dereg_mr(void* comm, void* mhandle) {
    return on_service([&] { return api_.dereg_mr(comm, mhandle); });
  }

  // The service thread tries again until a comm is there; accept closes the listen comm at once, as
  // NCCL does.
  std::future<CommOutcome> start_connect(const NetHandle& remote, milliseconds timeout);
  std::future<CommOutcome> start_accept(void* listen_comm, milliseconds timeout);
  // Ends every open attempt as if its time had run out.
  void abandon_attempts() noexcept { attempts_era_.fetch_add(1, std::memory_order_relaxed); }

 private:
  int on_service(const std::function<int()>& work);  // returns kNetInvalidUsage if closed

  NetApi& api_;
  const CommunicatorOptions options_;
  void* context_ = nullptr;
  bool open_ = false;
  std::atomic<std::uint64_t> attempts_era_{0};  // attempts of an older one are abandoned
  int device_count_ = 0;
  int device_ = 0;
  NetProperties properties_;
  std::unique_ptr<ServiceThread> service_;
  std::unique_ptr<ProgressThread> progress_;
};

}  // namespace mesh::driver
