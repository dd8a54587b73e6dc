#include "src/base/cpu_list.h"

#include <charconv>
#include <set>

namespace mesh {

namespace {

std::optional<int> read_index(std::string_view text) {
  int index = 0;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, index);
  if (text.empty() || error != std::errc{} || end != last || index < 0 || index >= kCpuIndexMax)
    return std::nullopt;
  return index;
}

}  // namespace

std::optional<std::vector<int>> read_cpu_list(std::string_view text) {
  std::set<int> cpus;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view part = text.substr(begin, end - begin);
    const std::size_t dash = part.find('-');
    const std::optional<int> from = read_index(part.substr(0, dash));
    const std::optional<int> to =
        dash == std::string_view::npos ? from : read_index(part.substr(dash + 1));
    if (!from || !to || *from > *to) return std::nullopt;
    for (int cpu = *from; cpu <= *to; ++cpu) cpus.insert(cpu);
    begin = end + 1;
  }
  return std::vector<int>(cpus.begin(), cpus.end());
}

}  // namespace mesh
