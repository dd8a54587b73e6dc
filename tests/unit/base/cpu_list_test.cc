#include "src/base/setting_grammar.h"

#include <gtest/gtest.h>

namespace mesh {
namespace {

using Cpus = std::vector<int>;

TEST(CpuList, IsSortedAndHoldsEachOnce) {
  EXPECT_EQ(read_cpu_list("3"), Cpus{3});
  EXPECT_EQ(read_cpu_list("4-7,2"), (Cpus{2, 4, 5, 6, 7}));
  EXPECT_EQ(read_cpu_list("2,2,1-2"), (Cpus{1, 2}));
  EXPECT_EQ(read_cpu_list("8191"), Cpus{8191});
}

TEST(CpuList, AnythingElseIsNone) {
  for (const char* text : {"", ",", "1,", ",1", "1-", "-1", "3-1", "1 ", " 1", "0x1", "8192",
                           "1-8192", "1--2", "1-2-3", "+1", "a"})
    EXPECT_EQ(read_cpu_list(text), std::nullopt) << text;
}

}  // namespace
}  // namespace mesh
