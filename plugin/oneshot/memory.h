#pragma once
// The memory of a group, from which its members send and into which they receive: a ring of pieces
// for what this host sends, and a room with such a ring for each member. NICs touch no memory of
// NCCL's, which NCCL frees before its registrations end, and reuses as soon as it aborts. Thread:
// the group's. Bound: kPieces pieces for each member, 2 MiB.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

namespace mesh::oneshot {

inline constexpr std::size_t kMembersMax = 16;
// A larger message is cut. One of 64 KiB is one piece, and the sum of a piece in a group of four
// takes about 10 us.
inline constexpr std::size_t kPieceBytes = std::size_t{128} << 10;
// NCCL has eight messages outstanding, each of one piece where the bound is at most 128 KiB; as
// many again may still be on their way to another member.
inline constexpr std::size_t kPieces = 16;

class Memory {
 public:
  static constexpr std::size_t kRingBytes = kPieces * kPieceBytes;

  explicit Memory(std::size_t members)
      : bytes_(members * kRingBytes),
        data_(static_cast<std::byte*>(::operator new(bytes_, kAlignment))) {}

  // The place in a member's ring; our own ring holds what we send.
  std::byte* piece(std::size_t member, std::uint64_t piece) const noexcept {
    return data_.get() + member * kRingBytes + piece % kPieces * kPieceBytes;
  }
  void* data() const noexcept { return data_.get(); }
  std::size_t bytes() const noexcept { return bytes_; }

 private:
  static constexpr std::align_val_t kAlignment{4096};
  struct Free {
    void operator()(std::byte* data) const noexcept { ::operator delete(data, kAlignment); }
  };

  std::size_t bytes_;
  std::unique_ptr<std::byte, Free> data_;
};

}  // namespace mesh::oneshot
