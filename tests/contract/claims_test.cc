// Tests which process may claim which host of a software fabric.

#include "tests/contract/kinds.h"
#include "tests/contract/other_process.h"

#include <gtest/gtest.h>

namespace mesh::contract {

namespace {

TEST(Claims, AHostBelongsToOneProcessAtATime) {
  {
    OtherProcess other(soft_process_kinds().front(), Side::Left, {});
    ASSERT_NE(other.name().qp_num, 0u);
    EXPECT_EQ(open_soft("a").code(), Errc::Exhausted);
    Result<std::unique_ptr<soft::SoftProvider>> next = open_soft("");
    ASSERT_TRUE(next.ok());
    EXPECT_EQ((*next)->host_name(), "b");
    EXPECT_EQ(open_soft("").code(), Errc::Exhausted) << "both are taken now";
  }
  EXPECT_TRUE(open_soft("a").ok()) << "free again";
  EXPECT_EQ(open_soft("zz").code(), Errc::NotFound);
}

}  // namespace

}  // namespace mesh::contract
