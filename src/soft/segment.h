#pragma once
// A piece of zeroed memory that two hosts of the fabric share: plain memory within a process, a
// memfd between processes. Thread: control; the memory itself is used by the data path.

#include <mesh/status.h>

#include "src/base/unique_fd.h"

#include <cstddef>

namespace mesh::soft {

enum class Sharing : unsigned char {
  Process,
  Host
};  // with whom: threads only, or other processes too

class Segment {
 public:
  Segment() = default;
  Segment(Segment&& other) noexcept;
  Segment& operator=(Segment&& other) noexcept;
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;
  ~Segment();

  static Result<Segment> create(std::size_t bytes, Sharing sharing);
  // Protocol: the descriptor holds fewer bytes, or could lose some later.
  static Result<Segment> map(UniqueFd fd, std::size_t bytes);

  std::byte* data() const noexcept { return data_; }
  std::size_t bytes() const noexcept { return bytes_; }
  // The memfd to give away, once; invalid for plain memory. Nothing keeps it afterwards: the
  // mapping holds the memory.
  UniqueFd take_fd() noexcept { return std::move(fd_); }
  int fd() const noexcept { return fd_.get(); }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  UniqueFd fd_;
};

}  // namespace mesh::soft
