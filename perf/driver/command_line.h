#pragma once
// The common parts of the tools' command lines. Thread: main.

#include "perf/driver/first_warning.h"
#include "src/base/setting_value.h"
#include "src/base/version.h"

#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace mesh::driver {

// The exit codes of all tools and scripts.
inline constexpr int kSuccess = 0, kFailed = 1, kUsage = 2, kBadResult = 3, kOnlyWarnings = 4,
                     kNotAvailable = 77;
struct ExitCode {
  int code;
  const char* meaning;
  const char* example;
};
inline constexpr auto kExitCodes = std::to_array<ExitCode>({
    {kSuccess, "success", "`mesh_doctor`: healthy; `mesh_rails`: the host has a rail"},
    {kFailed, "the run failed", "a rank was lost; no snapshot; no rail; no libibverbs"},
    {kUsage, "wrong usage",
     "an option, a name, a size, a setting, a plugin that does not load, or a file that "
     "cannot be read or written: nothing has run"},
    {kBadResult, "a bad result",
     "`mesh_perf`, `perf/run`: wrong data; `mesh_doctor`: broken; `--check` of "
     "`mesh_scale`, `--bars`, `perf/compare`: a bar is missed"},
    {kOnlyWarnings, "only warnings", "`mesh_doctor`"},
    {kNotAvailable, "not available here", "`perf/run`, `tests/lab/run`: no QEMU, no matplotlib"},
});

// Returns the end of each tool's help. No tool written in C++ ends with kNotAvailable.
inline std::string exit_status_text() {
  std::string text;
  for (const ExitCode& each : kExitCodes) {
    if (each.code != kNotAvailable)
      text +=
          fmt::format("{}{} {}", text.empty() ? "\nExit status: " : "; ", each.code, each.meaning);
  }
  return text + ".";
}

// Parses. Returns the exit code if the tool must end; --help and mistakes have been printed, a
// mistake in one line.
inline std::optional<int> parse(CLI::App& app, int argc, char** argv) {
  app.footer(app.get_footer() + exit_status_text());
  app.set_version_flag("--version", std::string("nccl-mesh ") + version());
  app.failure_message([](const CLI::App* tool, const CLI::Error& error) {
    return tool->get_name() + ": " + error.what() + "; --help has all options\n";
  });
  try {
    app.parse(argc, argv);
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kSuccess : kUsage;
  }
}

// Returns true if there is no mistake in the options. Else prints it and sets the exit code.
inline bool settled(const char* tool, const std::string& mistake, int* exit_code) {
  if (mistake.empty()) return true;
  std::fprintf(stderr, "%s: %s\n", tool, mistake.c_str());
  *exit_code = kUsage;
  return false;
}

// Returns why an output file cannot be written, so that the user learns it before the run; empty if
// it can, or if there is no file.
inline std::string unwritable(const std::string& file) {
  const std::filesystem::path path(file);
  const std::string folder = path.has_parent_path() ? path.parent_path().string() : ".";
  std::error_code none;
  const bool can = std::filesystem::exists(path, none)
                       ? ::access(file.c_str(), W_OK) == 0 && !std::filesystem::is_directory(path)
                       : ::access(folder.c_str(), W_OK | X_OK) == 0;
  if (file.empty() || can) return {};
  return file + " cannot be written; wanted: a file in a folder that exists and is writable";
}

inline std::string not_usable(const std::string& text, const std::string& wanted) {
  return "'" + text + "' is not usable; wanted: " + wanted;
}

// Takes a number of low to high.
template <typename Number>
CLI::Validator in_range(Number low, Number high) {
  const std::string wanted = fmt::format("{}..{}", low, high);
  return CLI::Validator(
      [low, high, wanted](std::string& text) {
        Number value{};
        const bool is = CLI::detail::lexical_cast(text, value) && value >= low && value <= high;
        return is ? std::string() : not_usable(text, wanted);
      },
      wanted);
}

inline CLI::Validator one_of_numbers(const std::vector<int>& numbers) {
  const std::string wanted = fmt::format("{}", fmt::join(numbers, ", "));
  return CLI::Validator(
      [numbers, wanted](std::string& text) {
        int value = 0;
        const bool is = CLI::detail::lexical_cast(text, value) &&
                        std::find(numbers.begin(), numbers.end(), value) != numbers.end();
        return is ? std::string() : not_usable(text, wanted);
      },
      wanted);
}

// Takes a size of low to high bytes, to which K, M or G may be added.
inline CLI::Validator size_in(std::int64_t low, std::int64_t high) {
  return CLI::Validator(
      [low, high](std::string& text) {
        const std::optional<std::int64_t> bytes = read_bytes(text);
        if (!bytes || *bytes < low || *bytes > high)
          return not_usable(text, bytes_text(low) + ".." + bytes_text(high));
        text = std::to_string(*bytes);
        return std::string();
      },
      "SIZE");
}

// Takes a name of the table. Another one is refused with those of the table.
template <typename Value>
CLI::Validator name_of(const std::map<std::string, Value>& values) {
  return CLI::Validator(
      [values](std::string& text) {
        std::string names;
        for (const auto& [name, value] : values) names += (names.empty() ? "" : ", ") + name;
        return values.contains(text) ? std::string() : "'" + text + "' is not one of " + names;
      },
      "");
}

// Turns a name of the table into its value of an enumeration.
template <typename E>
CLI::Validator one_of(const std::map<std::string, E>& values) {
  return CLI::Validator(
      [values](std::string& text) {
        const std::string mistake = name_of(values)(text);
        if (mistake.empty()) text = std::to_string(static_cast<int>(values.at(text)));
        return mistake;
      },
      "");
}

}  // namespace mesh::driver
