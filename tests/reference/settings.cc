// The settings, ours and NCCL's.
#include "src/base/nccl_table.h"
#include "src/base/setting_value.h"
#include "src/base/settings_table.h"
#include "tests/reference/tables.h"

namespace mesh::reference {

std::string settings() {
  const Settings defaults;
  std::string text = head({"variable", "default", "range", "meaning"});
  for (const Setting& setting : settings_table()) {
    const std::string unit = setting.unit[0] == '\0' ? "" : " (" + std::string(setting.unit) + ")";
    const std::string fallback =
        setting.fallback == nullptr ? "" : " Unset: `" + std::string(setting.fallback) + "`.";
    text += row({"`" + std::string(setting.name) + "`", value_text(setting, defaults),
                 range_text(setting) + unit, setting.doc + fallback});
  }
  return text;
}

namespace {
const char* standing_text(Standing standing) {
  switch (standing) {
    case Standing::Honoured: return "honoured";
    case Standing::Meaningless: return "no meaning here";
    case Standing::NotBuilt: return "not built";
  }
  return "";
}
}  // namespace

std::string nccl_settings() {
  std::string text = head({"variable of NCCL", "default there", "here", "why"});
  for (const NcclSetting& setting : nccl_table()) {
    const std::string since = setting.since;
    text +=
        row({"`" + std::string(setting.name) + "`" + (since.empty() ? "" : " (from " + since + ")"),
             setting.usual, standing_text(setting.standing), setting.reason});
  }
  return text;
}

}  // namespace mesh::reference
