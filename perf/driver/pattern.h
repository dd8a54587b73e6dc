#pragma once
// Content that says where it belongs. Each 8-byte word is a bijective function of its place in the
// message, keyed by (seed, sender, message number). Two places of one message never have the same
// word, so a swap, a shift, a stale or a foreign byte is always found. It runs at the speed of
// memory, for more than 8 MiB on threads of oneTBB. Thread: any (values).

#include <cstddef>
#include <cstdint>
#include <string>

namespace mesh::driver {

struct PatternKey {
  std::uint64_t seed = 0;
  std::uint32_t sender = 0;
  std::uint64_t message = 0;
};

void fill_pattern(const PatternKey& key, void* data, std::size_t bytes);

struct PatternVerdict {
  std::size_t wrong_bytes = 0;
  std::size_t first_offset = 0;  // offset of the first wrong byte
  bool good() const noexcept { return wrong_bytes == 0; }
};

PatternVerdict check_pattern(const PatternKey& key, const void* data, std::size_t bytes);

// Describes the first wrong word for people: "2 of 64 bytes wrong, first at offset 8: that word
// belongs at offset 16 of this message".
std::string describe(const PatternVerdict& verdict, const PatternKey& key, const void* data,
                     std::size_t bytes);

}  // namespace mesh::driver
