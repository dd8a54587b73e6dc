#pragma once
// The common parts of the tools' command lines. Thread: main.

#include "src/base/log.h"

#include <CLI/CLI.hpp>

#include <unistd.h>

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>

namespace mesh::driver {

// The exit codes of all tools (perf/README.md has the table).
inline constexpr int kSuccess = 0, kFailed = 1, kUsage = 2, kBadResult = 3, kOnlyWarnings = 4;
inline constexpr const char* kExitCodes =
    "\nExit status: 0 success; 1 the run failed; 2 wrong usage; 3 a bad result; 4 only warnings.";

// Parses. Returns the exit code if the tool must end; --help and mistakes have been printed, a
// mistake in one line.
inline std::optional<int> parse(CLI::App& app, int argc, char** argv) {
  app.footer(app.get_footer() + kExitCodes);
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

// Returns the first warning that an action logs; empty if there is none.
template <typename Action>
std::string first_warning(Action action) {
  static std::string first;
  first.clear();
  set_log_sink([](LogLevel level, const char*, int, const char* text) {
    if (level == LogLevel::Warn && first.empty()) first = text;
  });
  action();
  set_log_sink(nullptr);
  return first;
}

// Writes a size as --minbytes takes it: "32M".
inline std::string size_text(std::size_t bytes) {
  std::size_t unit = 0;
  for (; unit < 3 && bytes != 0 && bytes % 1024 == 0; ++unit) bytes /= 1024;
  return std::to_string(bytes) + (unit == 0 ? "" : std::string(1, " KMG"[unit]));
}

// Turns a name into its value of an enumeration. A name that is none is refused with those that
// are.
template <typename E>
CLI::Validator one_of(std::map<std::string, E> values) {
  return CLI::Validator(
      [values = std::move(values)](std::string& text) {
        if (const auto found = values.find(text); found != values.end()) {
          text = std::to_string(static_cast<int>(found->second));
          return std::string();
        }
        std::string names;
        for (const auto& [name, value] : values) names += (names.empty() ? "" : ", ") + name;
        return "'" + text + "' is not one of " + names;
      },
      "");
}

}  // namespace mesh::driver
