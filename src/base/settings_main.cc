// mesh_settings: shows the settings as this environment gives them.

#include "src/base/config.h"
#include "src/base/log.h"
#include "src/base/nccl_conf.h"
#include "src/base/version.h"

#include <cstdio>
#include <string>
#include <string_view>

namespace {
constexpr const char* kUsage =
    "usage: mesh_settings [--dump | --version | --help]\n"
    "  --dump  every setting with its value here, and whence it came (the default)\n"
    "Exit status: 0 success; 1 the run failed; 2 wrong usage; 3 a bad result; 4 only warnings.\n";

void print_warning(mesh::LogLevel level, const char*, int, const char* text) noexcept {
  if (level == mesh::LogLevel::Warn) std::fprintf(stderr, "mesh_settings: %s\n", text);
}

int print(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  return 0;
}
}  // namespace

int main(int argc, char** argv) {
  const std::string_view option = argc > 1 ? argv[1] : "--dump";
  if (argc > 2 || (option != "--dump" && option != "--version" && option != "--help")) {
    std::fprintf(stderr, "mesh_settings: %s is not --dump, --version or --help\n", argv[argc - 1]);
    return 2;
  }
  if (option == "--version") return print(std::string("nccl-mesh ") + mesh::version() + "\n");
  if (option == "--help") return print(kUsage);
  mesh::set_log_sink(&print_warning);
  mesh::Environment files;
  const mesh::Environment environment = mesh::with_nccl_conf(mesh::process_environment(), &files);
  const mesh::Result<mesh::Settings> settings = mesh::load_settings(environment);
  if (!settings.ok()) return 2;  // a warning has named it
  return print(mesh::describe_settings(*settings, environment, files) + "\n");
}
