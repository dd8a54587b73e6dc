#pragma once
// The common parts of the tools' command lines. Thread: main.

#include <CLI/CLI.hpp>

#include <map>
#include <string>
#include <utility>

namespace mesh::driver {

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
