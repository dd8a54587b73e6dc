#pragma once
// Tells which rails of two hosts cannot meet although they share a subnet. Thread: any (values).
// Bound: kMisfitLinesMax.

#include "engine/link/path_choice.h"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace mesh::engine {

// A pair of rails that share a subnet, meet no rail of the other host, and cannot meet each other.
struct MisfitLine {
  std::size_t theirs = 0, ours = 0;  // the connector's rail and the acceptor's
  std::string what{};                // with the values of both ends
  std::string remedy{};
  std::string text() const { return what + ": " + remedy; }
  bool sure = true;  // false: the rails may be on different cables, and then nothing is wrong
};
inline constexpr std::size_t kMisfitLinesMax = 8;
// `name` is our host's.
std::vector<MisfitLine> misfit_lines(const Hello& hello, const OwnRails& own,
                                     const PathChoice& choice, const std::string& name);

// Returns why two hosts have no path: what to set, and then the ends that cannot meet.
std::string no_path_for_misfit(const std::string& hosts, const MisfitLine& line);
// Returns true for a text of no_path_for_misfit(), of either host.
bool tells_misfit(std::string_view why);

}  // namespace mesh::engine
