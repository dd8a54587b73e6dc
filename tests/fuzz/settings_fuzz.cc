// Reads settings from "NAME=value" lines, as the environment has them. Settings that are accepted
// keep their bounds, and two descriptions of them are equal.
#include "src/base/config.h"
#include "src/base/setting_grammar.h"
#include "tests/fuzz/quiet_log.h"

namespace mesh {

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // Settings show the user's own values as they are, so their characters are not checked.
  set_log_sink([](LogLevel, const char*, int, const char*) {});
  std::string_view text(reinterpret_cast<const char*>(data), size);
  Environment environment;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const std::size_t equals = line.find('=');
    if (equals == std::string_view::npos) continue;
    environment.insert_or_assign(std::string(line.substr(0, equals)),
                                 std::string(line.substr(equals + 1)));
  }
  for (const auto& [name, value] : environment) {
    static_cast<void>(read_cpu_list(value));
    static_cast<void>(NameRule(value).matches("rocep1s0f0"));
  }
  const Result<Settings> settings = load_settings(environment);
  if (!settings.ok()) return 0;
  fuzz::expect(settings->traffic_class >= kAuto && settings->traffic_class <= 255, "traffic class");
  fuzz::expect(settings->timeout >= 0 && settings->timeout <= 31, "acknowledge timer");
  fuzz::expect(
      describe_settings(*settings, environment) == describe_settings(*settings, environment),
      "two descriptions");
  fuzz::expect(settings->qps == kAuto || (settings->qps >= 1 && settings->qps <= 32),
               "queue pairs out of range");
  fuzz::expect(settings->wr_bytes >= 4096 && settings->wr_bytes % 128 == 0,
               "work requests out of range");
  fuzz::expect(settings->inflight_bytes == kAuto || settings->inflight_bytes >= settings->wr_bytes,
               "nothing may be in flight");
  fuzz::expect(settings->slots >= 32 && settings->slots <= 256 &&
                   (settings->slots & (settings->slots - 1)) == 0,
               "slots");
  static_cast<void>(log_level_of(*settings));
  return 0;
}

}  // namespace mesh
