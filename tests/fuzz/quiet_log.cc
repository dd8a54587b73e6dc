#include "tests/fuzz/quiet_log.h"

#include "src/base/log.h"

namespace mesh::fuzz {
namespace {
void check_line(LogLevel, const char*, int, const char* text) {
  for (const char* at = text; *at != '\0'; ++at) {
    // Our own arrows and dashes are UTF-8; no line of ours has a control character.
    expect((*at >= ' ' && *at <= '~') || static_cast<unsigned char>(*at) >= 0x80,
           "a log line with a control character");
  }
}
}  // namespace

// Called by libFuzzer before the first input.
extern "C" int LLVMFuzzerInitialize(int*, char***) {
  set_log_sink(check_line);
  return 0;
}

}  // namespace mesh::fuzz
