#include "src/base/stats_target.h"

#include <charconv>

namespace mesh {

namespace {

std::optional<int> read_seconds(std::string_view text) {
  int seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error != std::errc{} || end != text.data() + text.size() || seconds < 1 ||
      seconds > kStatsPeriodMaxSeconds)
    return std::nullopt;
  return seconds;
}

bool only_known_marks(std::string_view file) {
  for (std::size_t at = file.find('%'); at != std::string_view::npos; at = file.find('%', at + 2)) {
    if (at + 1 == file.size() ||
        std::string_view("hp%").find(file[at + 1]) == std::string_view::npos)
      return false;
  }
  return true;
}

}  // namespace

std::optional<StatsTarget> read_stats_target(std::string_view text) {
  StatsTarget target{.file = std::string(text)};
  const std::size_t colon = text.rfind(':'), slash = text.rfind('/');
  if (colon != std::string_view::npos && (slash == std::string_view::npos || colon > slash)) {
    const std::optional<int> seconds = read_seconds(text.substr(colon + 1));
    if (!seconds) return std::nullopt;
    target.file = text.substr(0, colon);
    target.seconds = *seconds;
  }
  if (target.file.empty() || target.file.back() == '/' || !only_known_marks(target.file))
    return std::nullopt;
  return target;
}

std::string stats_file_name(std::string_view file, std::string_view host, int process) {
  std::string name;
  for (std::size_t at = 0; at < file.size(); ++at) {
    if (file[at] != '%' || at + 1 == file.size()) {
      name += file[at];
      continue;
    }
    switch (file[++at]) {
      case 'h': name += host; break;
      case 'p': name += std::to_string(process); break;
      default: name += file[at]; break;
    }
  }
  return name;
}

}  // namespace mesh
