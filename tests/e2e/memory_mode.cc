#include "tests/e2e/memory_mode.h"

#include "perf/driver/buffer.h"
#include "perf/driver/world.h"
#include "tests/prelude.h"

#include <nlohmann/json.hpp>

namespace mesh::e2e {
namespace {

constexpr const char* kMemoryFlag = "--memory";
constexpr const char* kMemoryVariable = "MESH_E2E_MEMORY";

std::string mode() { return driver::variable(process_environment(), kMemoryVariable); }

}  // namespace

bool take_memory_mode(int& argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]) != kMemoryFlag) continue;
    const std::string_view mode = i + 1 < argc ? argv[i + 1] : "";
    if (mode != "host" && mode != "device" && mode != "mixed") {
      std::fprintf(stderr, "e2e: %s '%s' is not usable; wanted: host, device or mixed\n",
                   kMemoryFlag, std::string(mode).c_str());
      return false;
    }
    ::setenv(kMemoryVariable, argv[i + 1], 1);
    for (int rest = i + 2; rest <= argc; ++rest) argv[rest - 2] = argv[rest];
    argc -= 2;
    return true;
  }
  return true;
}

bool has_device_memory() { return mode() == "device" || mode() == "mixed"; }

void choose_memory_of(int rank) {
  if (mode() == "device" || (mode() == "mixed" && rank % 2 != 0))
    driver::use_memory(driver::MemoryKind::Device);
}

std::string fabric_with_device_memory(const std::string& text) {
  nlohmann::json fabric = nlohmann::json::parse(text);
  for (nlohmann::json& host : fabric["hosts"]) {
    for (nlohmann::json& nic : host["nics"]) nic["device_memory"] = "both";
  }
  return fabric.dump();
}

}  // namespace mesh::e2e
