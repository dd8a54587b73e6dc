#include "tests/e2e/debug_rank.h"

#include "perf/driver/world.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>
#include <thread>

namespace mesh::e2e {
namespace {

constexpr const char* kDebugFlag = "--debug-rank";
constexpr const char* kDebugVariable = "MESH_DEBUG_RANK";  // pace.cc reads it too
constexpr int kRankMax = 63;
constexpr std::chrono::milliseconds kLookAgain{100};

bool is_rank(std::string_view text) {
  return !text.empty() && text.size() <= 2 &&
         text.find_first_not_of("0123456789") == std::string_view::npos &&
         std::atoi(std::string(text).c_str()) <= kRankMax;
}

bool is_traced() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("TracerPid:")) return line.find_first_of("123456789") != std::string::npos;
  }
  return false;
}

}  // namespace

bool take_debug_rank(int& argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]) != kDebugFlag) continue;
    const char* const number = i + 1 < argc ? argv[i + 1] : "";
    if (!is_rank(number)) {
      std::fprintf(stderr, "e2e: %s '%s' is not usable; wanted: a rank of 0..%d\n", kDebugFlag,
                   number, kRankMax);
      return false;
    }
    ::setenv(kDebugVariable, number, 1);
    for (int rest = i + 2; rest <= argc; ++rest)
      argv[rest - 2] = argv[rest];  // the null behind the last one too
    argc -= 2;
    return true;
  }
  return true;
}

bool debugging() { return !driver::variable(process_environment(), kDebugVariable).empty(); }

void wait_for_debugger(int rank) {
  if (driver::variable(process_environment(), kDebugVariable) != std::to_string(rank)) return;
  ::prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
  std::fprintf(stderr, "e2e: rank %d waits for a debugger: gdb -p %d\n", rank,
               static_cast<int>(::getpid()));
  while (!is_traced()) std::this_thread::sleep_for(kLookAgain);
  std::fprintf(stderr, "e2e: rank %d goes on\n", rank);
}

}  // namespace mesh::e2e
