#include "src/base/setting_grammar.h"

#include "src/base/nccl_names.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <set>

namespace mesh {

namespace {
// Takes the text up to the separator, and leaves what follows it.
std::string_view take_until(char separator, std::string_view& text) {
  const std::string_view part = text.substr(0, text.find(separator));
  text.remove_prefix(std::min(part.size() + 1, text.size()));
  return part;
}

int take_number(std::string_view& fields) {
  const std::string digits(take_until(':', fields));
  return digits.empty() ? -1 : static_cast<int>(std::strtol(digits.c_str(), nullptr, 10));
}

std::optional<NameRule::Entry> read_entry(std::string_view fields) {
  NameRule::Entry entry;
  entry.name = take_until(':', fields);
  if (entry.name.empty()) return std::nullopt;
  entry.port = take_number(fields);
  entry.rail = take_number(fields);
  entry.plane = take_number(fields);
  return entry;
}

// Returns the number that the whole text is, if it is one from min to max.
std::optional<int> number_in(std::string_view text, int min, int max) {
  int number = 0;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, number);
  if (error != std::errc{} || end != last || number < min || number > max) return std::nullopt;
  return number;
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

NameRule::NameRule(std::string_view text) {
  if (text.starts_with('^')) {
    exclude_ = true;
    text.remove_prefix(1);
  }
  if (text.starts_with('=')) {
    exact_ = true;
    text.remove_prefix(1);
  }
  while (!text.empty()) {
    if (std::optional<Entry> entry = read_entry(take_until(',', text)); entry)
      entries_.push_back(*std::move(entry));
  }
}

const NameRule::Entry* NameRule::find(std::string_view name, int port) const {
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return names(entry, name) && (entry.port == kAnyPort || port == kAnyPort || entry.port == port);
  });
  return found == entries_.end() ? nullptr : &*found;
}

const NameRule::Entry* NameRule::entry_of(std::string_view name, int port) const {
  return exclude_ ? nullptr : find(name, port);
}

bool NameRule::matches(std::string_view name, int port) const {
  // As in NCCL, an empty list holds every name: alone it chooses all, and behind "^" none.
  return (entries_.empty() || find(name, port) != nullptr) != exclude_;
}

bool NameRule::may_match(std::string_view name) const {
  if (!exclude_ || entries_.empty()) return matches(name);
  return std::none_of(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return entry.port == kAnyPort && names(entry, name);
  });
}

std::string_view socket_names(std::string_view text) noexcept {
  return text.size() > 1 ? text : std::string_view();
}

std::optional<StatsTarget> read_stats_target(std::string_view text) {
  StatsTarget target{.file = std::string(text)};
  const std::size_t colon = text.rfind(':'), slash = text.rfind('/');
  if (colon != std::string_view::npos && (slash == std::string_view::npos || colon > slash)) {
    const std::optional<int> seconds = number_in(text.substr(colon + 1), 1, kStatsPeriodMaxSeconds);
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

std::string snapshot_file_name(std::string_view stats_file) {
  constexpr std::string_view kPage = ".prom";
  if (stats_file.ends_with(kPage)) stats_file.remove_suffix(kPage.size());
  return std::string(stats_file) + ".json";
}

std::optional<std::vector<int>> read_cpu_list(std::string_view text) {
  std::set<int> cpus;
  const auto read_index = [](std::string_view index) {
    return number_in(index, 0, kCpuIndexMax - 1);
  };
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

bool AddressRange::holds(const SocketAddress& address) const noexcept {
  if (address.family != base.family) return false;
  const int whole = bits / 8, rest = bits % 8;  // bytes, and bits of the next one
  if (!std::equal(base.bytes.begin(), base.bytes.begin() + whole, address.bytes.begin()))
    return false;
  const auto at = static_cast<std::size_t>(whole);
  return rest == 0 || (address.bytes[at] ^ base.bytes[at]) >> (8 - rest) == 0;
}

std::optional<AddressRange> read_address_range(std::string_view text) {
  const std::size_t slash = text.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  const Result<SocketAddress> base = SocketAddress::from_text(text.substr(0, slash));
  if (!base.ok() || base->scope_id != 0) return std::nullopt;
  const int bits_max = base->family == AF_INET ? 32 : 128;
  const std::optional<int> bits = number_in(text.substr(slash + 1), 0, bits_max);
  if (!bits) return std::nullopt;
  return AddressRange{.base = *base, .bits = *bits};
}

}  // namespace mesh
