// Loads the library as NCCL does and calls init once: load FILE. Prints each log line, and then
// "loaded RESULT RAILS". Linked like the plugin itself, so that it runs where there is only libc.

#include "plugin/nccl/versions.h"

#include <dlfcn.h>

#include <cstdarg>
#include <cstdio>
#include <string>

namespace {

// NOLINTNEXTLINE(readability-function-size): NCCL's signature
void log(ncclDebugLogLevel level, unsigned long, const char*, int, const char* format, ...) {
  std::printf("%s ", level == NCCL_LOG_WARN ? "WARN" : level == NCCL_LOG_INFO ? "INFO" : "TRACE");
  va_list arguments;
  va_start(arguments, format);
  std::vprintf(format, arguments);
  va_end(arguments);
  std::printf("\n");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  void* const library = ::dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    std::printf("dlopen: %s\n", ::dlerror());
    return 1;
  }
  const std::string symbol = "ncclNetPlugin_v" + std::to_string(mesh::nccl::kNewestVersion);
  const auto* const net =
      static_cast<const mesh::nccl::NewestNet*>(::dlsym(library, symbol.c_str()));
  if (net == nullptr) return 1;
  void* context = nullptr;
  int rails = 0;
  const ncclResult_t result = net->init(&context, 1, nullptr, log, nullptr);
  if (result == ncclSuccess &&
      (net->devices(&rails) != ncclSuccess || net->finalize(context) != ncclSuccess))
    return 1;
  std::printf("loaded %u %d\n", static_cast<unsigned>(result), rails);
  return ::dlclose(library) == 0 ? 0 : 1;
}
