#include "tests/fuzz/quiet_log.h"

#include "src/base/log.h"

namespace mesh::fuzz {

namespace {
bool g_strict = false;

void check_line(LogLevel, const char*, int, const char* text) {
  for (const char* at = text; *at != '\0'; ++at) {
    if (g_strict && (*at < ' ' || *at > '~')) {
      // Our own arrows and dashes are UTF-8; no line of ours has a control character.
      expect(static_cast<unsigned char>(*at) >= 0x80, "a log line with a control character");
    }
  }
}
}  // namespace

void quiet_log() {
  set_log_sink(check_line);
  g_strict = true;
}

}  // namespace mesh::fuzz
