#include "src/verbs/memory_hint.h"

#include "tests/prelude.h"

namespace mesh::verbs {
namespace {

// Lowers the limit of locked memory for its life.
class LowLimit {
 public:
  LowLimit() {
    EXPECT_EQ(::getrlimit(RLIMIT_MEMLOCK, &before_), 0);
    rlimit low = before_;
    low.rlim_cur = 0;
    EXPECT_EQ(::setrlimit(RLIMIT_MEMLOCK, &low), 0);
  }
  ~LowLimit() { EXPECT_EQ(::setrlimit(RLIMIT_MEMLOCK, &before_), 0); }
  LowLimit(const LowLimit&) = delete;
  LowLimit& operator=(const LowLimit&) = delete;

 private:
  rlimit before_{};
};

TEST(MemoryHint, NamesTheLimitForOneErrorOnly) {
  const LowLimit low;
  EXPECT_EQ(std::string(memory_hint(ENOMEM)),
            " (this process may lock only so much memory: see ulimit -l)");
  for (const int error : {0, EPERM, EINVAL, EIO, EAGAIN, EFAULT, EOPNOTSUPP, ENODEV})
    EXPECT_EQ(std::string(memory_hint(error)), "") << error;
}

TEST(MemoryHint, BlamesNoLimitThatIsNotSet) {
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_MEMLOCK, &limit), 0);
  const bool unlimited = limit.rlim_cur == RLIM_INFINITY;
  EXPECT_EQ(std::string(memory_hint(ENOMEM)).find("sets no limit") != std::string::npos, unlimited);
}

}  // namespace
}  // namespace mesh::verbs
