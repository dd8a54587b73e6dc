#pragma once
// Loads settings from an environment without mistakes. Thread: the test's.

#include "src/base/config.h"
#include "tests/prelude.h"

namespace mesh::testkit {

inline Settings loaded(const Environment& environment) {
  const Result<Settings> settings = load_settings(environment);
  EXPECT_TRUE(settings.ok());
  return settings.ok() ? *settings : Settings{};
}

}  // namespace mesh::testkit
