#include "perf/mesh_rails/rail_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>

namespace mesh::rails {
namespace {

// Takes a line apart from its front. After the first missing part good() stays false.
class Words {
 public:
  explicit Words(std::string_view text) : left_(text) {}

  bool good() const { return good_; }
  bool at_end() const { return left_.empty(); }

  void literal(std::string_view text) {
    good_ = good_ && left_.starts_with(text);
    if (good_) left_.remove_prefix(text.size());
  }
  bool try_literal(std::string_view text) {
    if (!good_ || !left_.starts_with(text)) return false;
    left_.remove_prefix(text.size());
    return true;
  }
  int number() {
    int value = -1;
    const auto [end, error] = std::from_chars(left_.data(), left_.data() + left_.size(), value);
    good_ = good_ && error == std::errc{};
    if (good_) left_.remove_prefix(static_cast<std::size_t>(end - left_.data()));
    return value;
  }
  // Takes the text before `end`, which must not be empty, and `end` itself.
  std::string before(std::string_view end) {
    const std::size_t at = left_.find(end);
    good_ = good_ && at != std::string_view::npos && at > 0;
    if (!good_) return {};
    std::string text(left_.substr(0, at));
    left_.remove_prefix(at + end.size());
    return text;
  }
  // Takes the text up to the next comma or the end.
  std::string word() {
    std::string text(left_.substr(0, left_.find(',')));
    good_ = good_ && !text.empty() && text.find(' ') == std::string::npos;
    if (good_) left_.remove_prefix(text.size());
    return text;
  }

 private:
  std::string_view left_;
  bool good_ = true;
};

}  // namespace

std::optional<RailLine> parse_rail_line(const std::string& line) {
  Words words(line);
  RailLine rail;
  words.literal("rail ");
  rail.index = words.number();
  words.literal(" ");
  rail.name = words.before(": ");
  GidAddress& preferred = rail.addresses.emplace_back();
  preferred.address = words.before(", ");
  rail.gid_type = words.before(" GID index ");
  preferred.gid_index = words.number();
  words.literal(", ");
  words.number();
  words.literal(" Gb/s, MTU ");
  rail.mtu = words.number();
  words.literal(", NUMA node ");
  rail.numa_node = words.number();
  words.literal(", PCI ");
  rail.pci = words.word();
  if (!words.good() || !words.at_end()) return std::nullopt;
  return rail;
}

bool add_other_addresses(const std::string& line, RailLine& rail) {
  Words words(line);
  words.literal(fmt::format("rail {} {} also has ", rail.index, rail.name));
  std::vector<GidAddress> others;
  do {
    GidAddress& other = others.emplace_back();
    other.address = words.before(" (GID index ");
    other.gid_index = words.number();
    words.literal(")");
  } while (words.try_literal(", "));
  if (!words.good() || !words.at_end()) return false;
  rail.addresses.insert(rail.addresses.end(), others.begin(), others.end());
  return true;
}

std::vector<std::string> port_notes(const std::vector<std::string>& lines) {
  std::vector<std::string> notes;
  for (const std::string& line : lines) {
    if (line.starts_with("ports not used: ") || line.starts_with("no usable rail on ") ||
        line.starts_with("rails ") || line.find(", its port is down; ") != std::string::npos)
      notes.push_back(line);
  }
  return notes;
}

bool tell_of_no_rail(const std::vector<std::string>& lines) {
  return std::any_of(lines.begin(), lines.end(), [](const std::string& line) {
    return line.starts_with("no usable rail on ") ||
           line.find(" leaves no port of ") != std::string::npos;
  });
}

}  // namespace mesh::rails
