#include "engine/data/registration.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace mesh::engine {
namespace {

TEST(Registration, CoversItsRangeAndNothingElse) {
  Registration registration;
  registration.address = 4096;
  registration.bytes = 100;
  const auto at = [](std::uintptr_t address) { return reinterpret_cast<const void*>(address); };
  EXPECT_TRUE(registration.covers(at(4096), 100));
  EXPECT_TRUE(registration.covers(at(4195), 1));
  EXPECT_TRUE(registration.covers(at(4196), 0));
  EXPECT_FALSE(registration.covers(at(4095), 1));
  EXPECT_FALSE(registration.covers(at(4096), 101));
  EXPECT_FALSE(registration.covers(at(4196), 1));
  EXPECT_FALSE(registration.covers(at(4097), SIZE_MAX));
  EXPECT_FALSE(registration.covers(at(UINTPTR_MAX), 2));
}

}  // namespace
}  // namespace mesh::engine
