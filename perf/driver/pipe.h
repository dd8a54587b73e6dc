#pragma once
// One side of one connection, as NCCL's proxy drives it. Pieces are pushed in order, and at most
// `depth` of them are open. The progress thread starts them with isend or irecv, and tests only the
// oldest. Request slots are never cleared between calls. Thread: push() and the readers from one
// owner, turn() from the progress thread; the two may be the same.

#include "perf/driver/net_api.h"
#include "perf/driver/progress_thread.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace mesh::driver {

enum class Side : std::uint8_t { Send, Recv };

struct PipeOptions {
  Side side = Side::Send;
  void* comm = nullptr;
  std::uint32_t depth = 8;       // NCCL_STEPS; up to Pipe::kDepthMax
  bool optional_marker = false;  // irecv with 0x1 in the request slot: "completion not needed"
  bool ask_sizes = true;         // false: test() gets a null pointer, as 2.12 does for sends
};

class Pipe final : public Task {
 public:
  static constexpr std::uint32_t kDepthMax = 64;

  Pipe(NetApi& api, const PipeOptions& options);

  // Called by the owner. Returns false if `depth` pieces are open.
  bool push(const NetPiece& piece);
  std::uint64_t pushed() const noexcept { return pushed_.load(std::memory_order_relaxed); }
  std::uint64_t completed() const noexcept { return done_.load(std::memory_order_acquire); }
  std::size_t bytes_of(std::uint64_t message) const noexcept {
    return sizes_[message % kDepthMax];
  }  // as test() told

  bool turn() override;
  bool active() const noexcept override;
  int error() const noexcept override { return error_.load(std::memory_order_acquire); }

 private:
  bool start_next();    // one isend or irecv; true: accepted
  bool test_oldest();   // true: done
  bool flush_oldest();  // true: no flush is under way any more

  NetApi& api_;
  const PipeOptions options_;
  std::array<NetPiece, kDepthMax> pieces_{};
  std::array<void*, kDepthMax> requests_{};
  std::array<std::size_t, kDepthMax> sizes_{};
  void* flush_ = nullptr;  // the flush of the oldest piece, which has arrived
  // Sequentially consistent with ProgressThread's sleeping flag.
  std::atomic<std::uint64_t> pushed_{0};
  std::uint64_t posted_ = 0;            // progress thread only
  std::atomic<std::uint64_t> done_{0};  // released in test_oldest(), acquired in completed()
  std::atomic<int> error_{0};           // released in turn(), acquired in error()
};

}  // namespace mesh::driver
