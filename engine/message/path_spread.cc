#include "engine/message/path_spread.h"

#include "src/base/check.h"

#include <array>

namespace mesh::engine {

namespace {

// An eighth of stripe_bytes: a smaller part costs more in work requests than it saves on the wire.
constexpr std::uint64_t kLeastShare = 8;
// Bits of the fraction: 2^40 bytes, as many bytes in flight, and the fraction fit in a word.
constexpr std::uint32_t kFraction = 16;

struct Part {
  std::uint64_t lines = 0;  // still to be given out
  std::uint64_t stripe_lines = 0;
  std::uint32_t path = 0;
  std::uint32_t next_qp = 0;
  std::uint64_t at_line = 0;  // of the message, where the part begins
};
using Parts = std::array<Part, kPathsMax>;

std::uint64_t ceil_div(std::uint64_t value, std::uint64_t by) { return (value + by - 1) / by; }

// The weight of a byte on a path over other hosts. The path is as fast as one that many share: in a
// ring in which every host sends both ways, each cable carries a part of all hosts but one. The
// first host on the way also stores the whole part, at the cable's own speed, before it passes it
// on. So a part counts (hosts + 2) / (hosts + 1) times.
struct Weight {
  std::uint64_t part = 1, of = 1;
};
Weight weight_of(const PathLoad& path) {
  const std::uint64_t hosts = path.hosts_between;
  return hosts == 0 ? Weight{} : Weight{.part = hosts + 2, .of = hosts + 1};
}
std::uint64_t counted(const PathLoad& path, std::uint64_t bytes) {
  const Weight weight = weight_of(path);
  return bytes * weight.part / weight.of;
}

// Fills the paths up to one level: level = (bytes in flight + what its part counts) / speed. Leaves
// out a path that is above the level already, or hardly below it. The parts add up to the message,
// so a path whose bytes count more has less weight.
std::uint32_t fill_paths(std::uint64_t bytes, const SpreadSizes& sizes,
                         std::span<const PathLoad> paths, Parts& parts) noexcept {
  const std::uint64_t most = std::max<std::uint64_t>(1, ceil_div(bytes, sizes.stripe_bytes));
  auto count = static_cast<std::uint32_t>(paths.size());
  DCHECK(count != 0 && count <= kPathsMax);
  for (std::uint32_t i = 0; i < count; ++i) parts[i].path = i;
  for (;;) {
    std::uint64_t in_all = bytes, speed = 0;
    for (std::uint32_t i = 0; i < count; ++i) {
      const PathLoad& path = paths[parts[i].path];
      const Weight weight = weight_of(path);
      in_all += path.bytes * weight.of / weight.part;
      speed += path.speed_mbps * weight.of / weight.part;
    }
    DCHECK(speed != 0);
    DCHECK(in_all >> (64 - kFraction) == 0);
    const std::uint64_t level = (in_all << kFraction) / speed;
    std::uint32_t least = 0;
    for (std::uint32_t i = 0; i < count; ++i) {
      const PathLoad& path = paths[parts[i].path];
      const std::uint64_t until = (level * path.speed_mbps) >> kFraction;
      const std::uint64_t part = until > path.bytes ? until - path.bytes : 0;
      const Weight weight = weight_of(path);
      parts[i].lines = part * weight.of / weight.part / kStripeAlign;
      if (parts[i].lines < parts[least].lines) least = i;
    }
    const bool enough = parts[least].lines * kStripeAlign * kLeastShare >= sizes.stripe_bytes;
    if (count == 1 || (enough && count <= most)) return count;
    parts[least] = parts[--count];
  }
}

}  // namespace

std::uint32_t earliest_path(std::uint64_t bytes, std::span<const PathLoad> paths,
                            std::uint32_t from) noexcept {
  const auto count = static_cast<std::uint32_t>(paths.size());
  DCHECK(count != 0);
  std::uint32_t best = from % count;
  for (std::uint32_t i = 1; i < count; ++i) {
    const std::uint32_t other = (from + i) % count;
    // Cross-multiplied, so that no message pays for a division.
    if ((paths[other].bytes + counted(paths[other], bytes)) * paths[best].speed_mbps <
        (paths[best].bytes + counted(paths[best], bytes)) * paths[other].speed_mbps)
      best = other;
  }
  return best;
}

void spread_stripes(std::uint64_t bytes, const SpreadSizes& sizes, std::span<const PathLoad> paths,
                    StripeTable& table) noexcept {
  DCHECK(bytes != 0);
  Parts parts;
  const std::uint32_t count = fill_paths(bytes, sizes, paths, parts);
  const std::uint64_t lines = ceil_div(bytes, kStripeAlign);
  const auto path_count = static_cast<std::uint32_t>(paths.size());
  const std::uint32_t qps = std::min(sizes.qps, kStripesMax / path_count);
  std::uint64_t given = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    Part& part = parts[i];
    DCHECK(given <= lines);
    // The last path gets what rounding has left. Speeds are rounded too, so the paths before it may
    // have got a little too much.
    const std::uint64_t left = lines - given;
    part.lines = i + 1 == count ? left : std::min(part.lines, left);
    part.at_line = given;
    given += part.lines;
    if (part.lines == 0) continue;
    const std::uint64_t wanted = ceil_div(part.lines * kStripeAlign, sizes.stripe_bytes);
    part.stripe_lines = ceil_div(part.lines, std::min<std::uint64_t>(wanted, qps));
    part.next_qp = paths[part.path].next_qp;
  }
  // Goes round the paths, so that every path has work before any path has all of its work.
  table.count = 0;
  for (std::uint64_t left = lines; left != 0;) {
    for (std::uint32_t i = 0; i < count; ++i) {
      Part& part = parts[i];
      const std::uint64_t taken = std::min(part.lines, part.stripe_lines);
      if (taken == 0) continue;
      const std::uint64_t begin = part.at_line * kStripeAlign;
      DCHECK(table.count < kStripesMax);
      DCHECK(begin < bytes);
      table.stripes[table.count++] = {
          .span = {.offset = begin, .bytes = std::min(begin + taken * kStripeAlign, bytes) - begin},
          .position = part.next_qp++ % sizes.qps * path_count + part.path};
      part.at_line += taken;
      part.lines -= taken;
      DCHECK(taken <= left);
      left -= taken;
    }
  }
}

}  // namespace mesh::engine
