// Tests which process may claim which host of a software fabric.

#include "tests/contract/kinds.h"
#include "tests/contract/other_process.h"

namespace mesh::contract {
namespace {

TEST(Claims, SeveralProcessesAreOneHost) {
  {
    OtherProcess other(soft_process_kinds().front(), Side::Left, {});
    ASSERT_NE(other.name().qp_num, 0u);
    EXPECT_TRUE(open_soft("a").ok());
    Result<std::unique_ptr<soft::SoftProvider>> next = open_soft("");
    ASSERT_TRUE(next.ok());
    EXPECT_EQ((*next)->host_name(), "b");
    EXPECT_EQ(open_soft("").code(), Errc::Exhausted) << "without a name only a host of its own";
  }
  const Result<std::unique_ptr<soft::SoftProvider>> first = open_soft("");
  ASSERT_TRUE(first.ok());
  EXPECT_EQ((*first)->host_name(), "a") << "free again";
  EXPECT_EQ(open_soft("zz").code(), Errc::NotFound);
}

}  // namespace
}  // namespace mesh::contract
