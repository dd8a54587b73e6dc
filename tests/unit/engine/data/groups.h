#pragma once
// Groups of receives over a Talk: their members and their results. Thread: one.

#include "tests/unit/engine/bed.h"

namespace mesh::testkit {

inline constexpr std::size_t kMembers = kGroupMax;
inline constexpr std::size_t kStep = 4096;
using GroupSizes = std::array<std::size_t, kGroupMax>;

// Returns members with tags from `first_tag` up, whose buffers follow one another from `at` on.
inline std::vector<RecvArgs> members(Talk& talk, std::size_t at, std::uint32_t first_tag,
                                     std::size_t count = kMembers) {
  std::vector<RecvArgs> all;
  for (std::size_t i = 0; i < count; ++i) {
    all.push_back({.data = talk.target.data() + at + i * kStep,
                   .bytes = kStep,
                   .tag = first_tag + static_cast<std::uint32_t>(i),
                   .region = talk.target_region});
  }
  return all;
}

inline Result<std::size_t> finish_group(Bed& bed, Request* request, GroupSizes* sizes) {
  Result<std::size_t> answer = Errc::WouldBlock;
  bed.until([&] {
    answer = test_group(*request, *sizes);
    return answer.code() != Errc::WouldBlock;
  });
  return answer;
}

inline Result<Request*> send(Talk& talk, std::size_t at, std::size_t bytes, std::uint32_t tag) {
  return talk.send({.at = at, .bytes = bytes, .tag = tag});
}

}  // namespace mesh::testkit
