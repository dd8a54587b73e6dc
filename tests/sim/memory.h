#pragma once
// The memory of one world: a source that is written once and never again, random at every offset,
// so that a byte tells where it came from; and a target whose pieces are handed out one after the
// other, at the same relative places in every run.

#include "tests/standard.h"

namespace mesh::sim {

inline constexpr std::size_t kSourceBytes = std::size_t{16} << 20;
inline constexpr std::size_t kTargetBytes = std::size_t{256}
                                            << 20;  // address space; used up piece by piece
inline constexpr std::byte kUntouched{0xee};        // nobody has written here
inline constexpr std::byte kConsumed{0xbb};         // received, and then overwritten by its user
inline constexpr std::byte kTakenBack{0xcc};        // deregistered: nobody may write here any more

// Returns this process's source, filled at first use and write-protected: a world that writes into
// what is sent crashes.
std::span<std::byte> source_memory();

class Target {
 public:
  Target();
  ~Target();
  Target(const Target&) = delete;
  Target& operator=(const Target&) = delete;

  std::span<std::byte> take(std::size_t bytes);  // filled with kUntouched; empty: there is no more

 private:
  std::byte* memory_ = nullptr;
  std::size_t used_ = 0;
};

bool all_are(std::span<const std::byte> bytes, std::byte value) noexcept;

}  // namespace mesh::sim
