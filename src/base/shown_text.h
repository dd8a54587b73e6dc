#pragma once
// Makes text of a file or of a peer fit for a log line: one line, short, and without control
// characters. Thread: any (pure). Bound: the length given.

#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <string_view>

namespace mesh {

inline constexpr std::size_t kShownTextMax = 400;

// Returns the text with \xNN for every byte that is not a printable ASCII character, and "..." for
// the rest beyond `most` bytes.
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
