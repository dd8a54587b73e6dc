#include "perf/driver/pipe.h"

namespace mesh::driver {
namespace {
// NCCL leaves the last request in a slot. A plugin that reads it must fail, so we leave a value
// that is no request.
void* const kStaleRequest = reinterpret_cast<void*>(0x5a5a5a5a5a5a5a50);
void* const kOptionalCompletion = reinterpret_cast<void*>(0x1);
}  // namespace

Pipe::Pipe(NetApi& api, const PipeOptions& options) : api_(api), options_(options) {
  requests_.fill(kStaleRequest);
}

bool Pipe::push(const NetPiece& piece) {
  const std::uint64_t index = pushed_.load(std::memory_order_relaxed);
  if (index - done_.load(std::memory_order_acquire) >= options_.depth) return false;
  pieces_[index % kDepthMax] = piece;
  pushed_.store(index + 1, std::memory_order_seq_cst);
  poke();
  return true;
}

bool Pipe::active() const noexcept {
  return error() == 0 &&
         pushed_.load(std::memory_order_seq_cst) != done_.load(std::memory_order_acquire);
}

bool Pipe::turn() {
  if (error_.load(std::memory_order_relaxed) != 0) return false;
  if (posted_ < pushed_.load(std::memory_order_acquire) && start_next()) return true;
  if (error_.load(std::memory_order_relaxed) != 0 ||
      done_.load(std::memory_order_relaxed) == posted_)
    return false;
  return test_oldest();
}

bool Pipe::start_next() {
  const NetPiece& piece = pieces_[posted_ % kDepthMax];
  void*& request = requests_[posted_ % kDepthMax];
  int result = kNetSuccess;
  if (options_.side == Side::Send) {
    result = api_.isend(options_.comm, piece, &request);
  } else {
    if (options_.optional_marker) request = kOptionalCompletion;
    result = api_.irecv(options_.comm, piece, &request);
  }
  if (result != kNetSuccess) {
    error_.store(result, std::memory_order_release);
    return false;
  }
  if (request == nullptr) return false;
  ++posted_;
  return true;
}

// Flushes as NCCL does: the size that was received, right after the receive is done.
bool Pipe::flush_oldest() {
  const std::uint64_t oldest = done_.load(std::memory_order_relaxed);
  int done = flush_ == nullptr ? 1 : 0;
  const int result = flush_ == nullptr ? kNetSuccess : api_.test(flush_, &done, nullptr);
  if (result != kNetSuccess) error_.store(result, std::memory_order_release);
  if (result != kNetSuccess || done == 0) return false;
  flush_ = nullptr;
  done_.store(oldest + 1, std::memory_order_release);
  return true;
}

bool Pipe::test_oldest() {
  if (flush_ != nullptr) return flush_oldest();
  const std::uint64_t oldest = done_.load(std::memory_order_relaxed);
  int done = 0;
  int bytes = 0;
  const int result =
      api_.test(requests_[oldest % kDepthMax], &done, options_.ask_sizes ? &bytes : nullptr);
  if (result != kNetSuccess) {
    error_.store(result, std::memory_order_release);
    return false;
  }
  if (done == 0) return false;
  sizes_[oldest % kDepthMax] = static_cast<std::size_t>(bytes);
  NetPiece piece = pieces_[oldest % kDepthMax];
  if (options_.side == Side::Recv && piece.flush && bytes > 0) {
    piece.bytes = static_cast<std::size_t>(bytes);
    const int flushed = api_.iflush(options_.comm, piece, &flush_);
    if (flushed != kNetSuccess) error_.store(flushed, std::memory_order_release);
    if (flushed != kNetSuccess) return false;
  }
  return flush_oldest();
}

}  // namespace mesh::driver
