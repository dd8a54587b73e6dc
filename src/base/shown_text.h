#pragma once
// Text of a file or of a peer as a log line may show it: on one line, without what a terminal would
// obey, and short. Thread: any (pure).

#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <string_view>

namespace mesh {

inline constexpr std::size_t kShownTextMax = 400;

// Every byte that is not a printable character of ASCII becomes \xNN; what lies behind the bound
// becomes "...".
inline std::string shown_text(std::string_view text, std::size_t most = kShownTextMax) {
  std::string shown;
  for (const char c : text.substr(0, most)) {
    if (c >= ' ' && c <= '~') {
      shown += c;
    } else {
      shown += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
  }
  return text.size() > most ? shown + "..." : shown;
}

}  // namespace mesh
