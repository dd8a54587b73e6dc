#pragma once
// A buffer registered with one comm, given back in NCCL's order: deregMr first, then the memory.
// Thread: one owner.

#include "perf/driver/buffer.h"
#include "perf/driver/communicator.h"

#include <utility>

namespace mesh::driver {

class Registered {
 public:
  Registered() = default;
  Registered(Communicator& communicator, void* comm, std::size_t bytes)
      : communicator_(&communicator), comm_(comm), buffer_(bytes, memory_in_use()) {
    const UniqueFd exported = buffer_.is_device() ? buffer_.export_buffer() : UniqueFd();
    result_ =
        communicator.reg_mr(comm,
                            {buffer_.address(), buffer_.bytes(),
                             buffer_.is_device() ? NCCL_PTR_CUDA : NCCL_PTR_HOST, exported.get()},
                            &mhandle_);
  }
  Registered(Registered&& other) noexcept { *this = std::move(other); }
  Registered& operator=(Registered&& other) noexcept {
    std::swap(communicator_, other.communicator_);
    std::swap(comm_, other.comm_);
    std::swap(buffer_, other.buffer_);
    std::swap(mhandle_, other.mhandle_);
    std::swap(result_, other.result_);
    return *this;
  }
  ~Registered() { release(); }

  // Deregisters now and keeps the memory.
  int release() {
    if (mhandle_ == nullptr) return kNetSuccess;
    return communicator_->dereg_mr(comm_, std::exchange(mhandle_, nullptr));
  }

  int result() const noexcept { return result_; }  // of regMr
  char* data() const noexcept { return buffer_.data(); }
  void* mhandle() const noexcept { return mhandle_; }
  Buffer& buffer() noexcept { return buffer_; }
  NetPiece piece(std::size_t offset, std::size_t bytes, int tag = 0) const {
    return {buffer_.address() + offset, bytes, tag, mhandle_, buffer_.is_device()};
  }

 private:
  Communicator* communicator_ = nullptr;
  void* comm_ = nullptr;
  Buffer buffer_;
  void* mhandle_ = nullptr;
  int result_ = kNetSuccess;
};

}  // namespace mesh::driver
