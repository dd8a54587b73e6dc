#pragma once
// The first warning of an action, for a tool that says it in its own name. Thread: main, as the log
// has one sink. Bound: one line.

#include "src/base/log.h"

#include <string>

namespace mesh::driver {

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

}  // namespace mesh::driver
