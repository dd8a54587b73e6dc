#pragma once
// Reads a list of CPUs as a person writes it: "2,4-7". Thread: any (pure). Bound: indices below
// kCpuIndexMax.

#include <optional>
#include <string_view>
#include <vector>

namespace mesh {

inline constexpr int kCpuIndexMax = 8192;

// Returns the CPUs sorted, each once, or no value if the text as a whole is not such a list.
std::optional<std::vector<int>> read_cpu_list(std::string_view text);

}  // namespace mesh
