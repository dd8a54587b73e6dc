#include "src/base/nccl_number.h"

#include <cerrno>
#include <cstdlib>

namespace mesh {

std::optional<NcclNumber> read_nccl_number(const std::string& text) {
  char* end = nullptr;
  errno = 0;
  const long long value = std::strtoll(text.c_str(), &end, 0);
  if (errno != 0 || end == text.c_str()) return std::nullopt;
  return NcclNumber{.value = value, .whole = *end == '\0'};
}

}  // namespace mesh
