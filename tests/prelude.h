#pragma once
// GoogleTest, fmt, and the headers of the standard library and of the system. A test includes this
// file in their place. It is precompiled, once for all test programs.
#include <gtest/gtest.h>

#include "tests/standard.h"
