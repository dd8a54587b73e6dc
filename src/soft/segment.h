#pragma once
// A piece of zeroed memory that two hosts of the fabric share: plain memory within a process, a
// memfd between processes. Thread: control; the data path uses the memory itself. Bound: its bytes.

#include <mesh/status.h>

#include "src/base/unique_fd.h"

#include <cstddef>

namespace mesh::soft {

enum class Sharing : unsigned char {
  Process,  // with threads of this process only
  Host,     // with other processes too
};

class Segment {
 public:
  Segment() = default;
  Segment(Segment&& other) noexcept;
  Segment& operator=(Segment&& other) noexcept;
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;
  ~Segment();

  static Result<Segment> create(std::size_t bytes, Sharing sharing);
  // Maps a segment. Returns Protocol if the descriptor has fewer bytes, or could lose some later.
  static Result<Segment> map(UniqueFd fd, std::size_t bytes);

  std::byte* data() const noexcept { return data_; }
  std::size_t bytes() const noexcept { return bytes_; }
  // Gives the memfd away, once; it is invalid for plain memory. The mapping alone keeps the memory
  // afterwards.
  UniqueFd take_fd() noexcept { return std::move(fd_); }
  int fd() const noexcept { return fd_.get(); }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  UniqueFd fd_;
};

}  // namespace mesh::soft
