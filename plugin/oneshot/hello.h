#pragma once
// The first message on each channel of a group: who sends it, and what all members must have alike.
// A host whose settings or version differ would cut or choose messages in another way. The second
// says whom the sender reaches, so that all members plan alike. Thread: any (values). Bound: one of
// each for each channel.

#include "plugin/oneshot/memory.h"

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

namespace mesh::oneshot {

struct Hello {
  static constexpr std::uint64_t kMagic = 0x746f685365604f4d;
  // Raise it with every change of the order, the cut or the sums of pieces.
  static constexpr std::uint32_t kVersion = 2;

  std::uint64_t magic = kMagic;
  std::uint32_t version = kVersion;
  std::uint32_t rank = 0, members = 0;
  std::uint32_t piece_bytes = kPieceBytes, pieces = kPieces;
  std::uint32_t willing = 0;    // 0: that host cannot take part, and has said why
  std::uint64_t bound = 0;      // NCCL_MESH_ONESHOT_BYTES
  std::array<char, 24> host{};  // the sender's name, for log lines; cut if it is longer
};
static_assert(sizeof(Hello) == 64 && std::is_trivially_copyable_v<Hello>);
static_assert(std::endian::native == std::endian::little);

// The second message, once a member has a channel to each of the others; it is equal for all of
// them.
struct Reach {
  static constexpr std::uint64_t kMagic = 0x686361655268734d;

  std::uint64_t magic = kMagic;
  std::uint32_t neighbours = 0;  // a bit for each rank that it reaches without a host between
  std::uint32_t reserved[13] = {};
};
static_assert(sizeof(Reach) == 64 && std::is_trivially_copyable_v<Reach>);

// Returns how the peer's hello keeps the two from being one group, or empty.
std::string disagreement(const Hello& ours, const Hello& peers);

}  // namespace mesh::oneshot
