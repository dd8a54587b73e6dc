#pragma once
// CPUs as a person lists them: "2,4-7". Thread: any (pure). Bound: indices below kCpuIndexMax.

#include <optional>
#include <string_view>
#include <vector>

namespace mesh {

inline constexpr int kCpuIndexMax = 8192;

// Sorted, each once. Nothing: the text is not such a list, from its first character to its last.
std::optional<std::vector<int>> read_cpu_list(std::string_view text);

}  // namespace mesh
