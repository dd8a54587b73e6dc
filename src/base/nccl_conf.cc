#include "src/base/nccl_conf.h"

#include "src/base/small_file.h"

#include <algorithm>

namespace mesh {

std::vector<std::string> nccl_conf_files(const Environment& environment) {
  const auto value_of = [&environment](const char* name) {
    const auto entry = environment.find(name);
    return entry == environment.end() ? std::string() : entry->second;
  };
  std::vector<std::string> files;
  if (const std::string named = value_of("NCCL_CONF_FILE"); !named.empty()) {
    files.push_back(named);
  } else if (const std::string home = value_of("HOME"); !home.empty()) {
    files.push_back(home + "/.nccl.conf");
  }
  files.emplace_back("/etc/nccl.conf");
  return files;
}

std::optional<std::pair<std::string, std::string>> read_conf_line(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  const std::size_t equals = line.find('=');
  if (line.starts_with('#') || equals == std::string_view::npos) return std::nullopt;
  return std::pair(std::string(line.substr(0, equals)), std::string(line.substr(equals + 1)));
}

Environment with_nccl_conf(Environment environment, Environment* files) {
  for (const std::string& file : nccl_conf_files(environment)) {
    const Result<std::string> text = read_short_file(file, kConfBytesMax);
    if (!text.ok()) continue;
    for (std::string_view rest = *text; !rest.empty();) {
      const std::string_view line = rest.substr(0, rest.find('\n'));
      rest.remove_prefix(std::min(rest.size(), line.size() + 1));
      const auto set = read_conf_line(line);
      if (set && environment.insert(*set).second && files != nullptr)
        files->emplace(set->first, file);
    }
  }
  return environment;
}

}  // namespace mesh
