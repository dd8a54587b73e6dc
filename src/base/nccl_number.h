#pragma once
// Reads a number as NCCL reads its parameters: blanks in front are skipped, 0x is hexadecimal, a
// leading 0 is octal, and what follows the digits is ignored (in NCCL's sources: ncclLoadParam,
// strtoll with base 0). Thread: any. Bound: the text.

#include <cstdint>
#include <optional>
#include <string>

namespace mesh {

struct NcclNumber {
  std::int64_t value = 0;
  bool whole = true;  // nothing follows the digits
};

// Returns no value if there is no digit (NCCL reads 0), or if the number has more than 64 bits
// (NCCL takes its default).
std::optional<NcclNumber> read_nccl_number(const std::string& text);

}  // namespace mesh
