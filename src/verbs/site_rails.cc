#include "src/verbs/discovery.h"

#include "src/base/log.h"
#include "src/base/setting_grammar.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

namespace mesh::verbs {

namespace {
constexpr int kPortBits = 8;  // of an identity that nobody assigned

std::uint32_t rail_number(const Rail& rail) {
  return rail.info.rail_id != kUnassigned ? static_cast<std::uint32_t>(rail.info.rail_id)
                                          : rail.identity >> kPortBits;
}

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

// Returns true if the entry names the rail. prefix: the leading "^" and "=" of the list.
bool names(std::string_view prefix, std::string_view entry, const Rail& rail) {
  if (entry.empty()) return false;  // a rule without a name would match them all
  if (is_number(entry)) return std::to_string(rail_number(rail)) == entry;
  const bool exact = prefix.find('=') != std::string_view::npos;
  return NameRule(fmt::format("{}{}", exact ? "=" : "", entry))
      .matches(rail.info.device, rail.info.port);
}

std::string rails_text(std::span<const Rail> rails) {
  std::string text;
  for (const Rail& rail : rails)
    text +=
        fmt::format("{}{} (rail {})", text.empty() ? "" : ", ", rail.info.name, rail_number(rail));
  return text;
}
}  // namespace

Status mark_site_rails(std::span<Rail> rails, const Settings& settings) {
  std::string_view list = settings.site_rails;
  if (list.empty()) return {};
  if (settings.site.empty()) {
    LOG_WARN(
        "NCCL_MESH_SITE_RAILS={} says which rails leave this host's site, and NCCL_MESH_SITE does "
        "not name it: set both or neither",
        list);
    return Errc::InvalidArgument;
  }
  const std::string_view prefix =
      list.substr(0, std::min(list.find_first_not_of("^="), list.size()));
  list.remove_prefix(prefix.size());
  const bool excludes = prefix.starts_with('^');
  for (Rail& rail : rails) rail.leaves_site = excludes;
  do {
    const std::string_view entry = list.substr(0, list.find(','));
    list.remove_prefix(std::min(entry.size() + 1, list.size()));
    bool any = false;
    for (Rail& rail : rails) {
      if (!names(prefix, entry, rail)) continue;
      rail.leaves_site = !excludes;
      any = true;
    }
    if (any) continue;
    LOG_WARN("NCCL_MESH_SITE_RAILS: '{}' names no rail of this host, which has {}", entry,
             rails_text(rails));
    return Errc::InvalidArgument;
  } while (!list.empty());
  return {};
}

}  // namespace mesh::verbs
