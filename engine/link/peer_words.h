#pragma once
// Causes as they stand in frames: they speak of the sender's things, and its peer reads them.
// Thread: any (pure). Bound: the text's.

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace mesh::engine {

// Returns "its port is down" of "our port is down".
inline std::string in_peers_words(std::string cause) {
  constexpr std::string_view kOwn = "our ", kPeers = "its ";
  for (std::size_t at = cause.find(kOwn); at != std::string::npos; at = cause.find(kOwn, at + 1)) {
    if (at == 0 || cause[at - 1] == ' ') cause.replace(at, kOwn.size(), kPeers);
  }
  return cause;
}

// Returns that behind the host's name: "host a: its port is down".
inline std::string told_by(const std::string& host, const std::string& cause) {
  return fmt::format("host {}: {}", host, in_peers_words(cause));
}

// Returns the cause of told_by(), for a line that begins with the host's name.
inline std::string_view without_name(const std::string& host, std::string_view told) {
  const std::string name = told_by(host, {});
  return told.starts_with(name) ? told.substr(name.size()) : told;
}

}  // namespace mesh::engine
