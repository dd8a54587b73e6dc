#include "src/soft/segment.h"

#include "tests/prelude.h"
#include "tests/unit/base/child.h"
#include "tests/unit/base/log_capture.h"
#include "tests/unit/base/process_limit.h"

namespace mesh::soft {
namespace {

using testkit::Child, testkit::Limit, testkit::LogCapture, testkit::open_files;

constexpr std::size_t kBytes = 8192;

// If a peer shrinks a file that we have mapped, SIGBUS ends our process.
TEST(Segment, MemoryThatCanShrinkIsRefused) {
  const UniqueFd open_end(::memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(open_end.get(), kBytes), 0);
  const LogCapture log;
  EXPECT_EQ(Segment::map(UniqueFd(::fcntl(open_end.get(), F_DUPFD_CLOEXEC, 0)), kBytes).code(),
            Errc::Protocol);
  EXPECT_EQ(log.joined(),
            "soft fabric: a peer's memory is refused: it is not sealed against shrinking\n");
  ASSERT_EQ(::fcntl(open_end.get(), F_ADD_SEALS, F_SEAL_SHRINK), 0);
  EXPECT_TRUE(Segment::map(UniqueFd(::fcntl(open_end.get(), F_DUPFD_CLOEXEC, 0)), kBytes).ok());
  EXPECT_EQ(Segment::map(UniqueFd(::fcntl(open_end.get(), F_DUPFD_CLOEXEC, 0)), kBytes + 1).code(),
            Errc::Protocol);
}

TEST(Segment, OurMemoryKeepsItsSize) {
  const Segment memory = std::move(*Segment::create(kBytes, Sharing::Host));
  EXPECT_NE(::ftruncate(memory.fd(), 0), 0) << "whoever has the descriptor can end our process";
  EXPECT_NE(::ftruncate(memory.fd(), 1 << 30), 0);
}

// By default the kernel sends SIGXFSZ, which ends the process.
TEST(Segment, AFileTooLongForThisProcessIsAnError) {
  const LogCapture log;
  const Limit files(RLIMIT_FSIZE, 4096);
  Child child(
      [&](int) { return Segment::create(1 << 20, Sharing::Host).code() == Errc::System ? 0 : 1; });
  EXPECT_EQ(child.join(), 0);
  EXPECT_EQ(Segment::create(1 << 20, Sharing::Host).code(), Errc::System);
  EXPECT_EQ(log.joined(),
            "soft fabric: no memfd of 1048576 bytes: this process may make no file of more than "
            "4096 (ulimit -f)\n");
}

#if !defined(MESH_SANITIZE_ADDRESS) && !defined(MESH_SANITIZE_THREAD)
TEST(Segment, NoAddressSpaceIsAnError) {
  std::size_t pages = 0;
  {
    std::ifstream statm("/proc/self/statm");
    statm >> pages;
  }
  const std::ptrdiff_t files = open_files();
  const LogCapture log;
  const Limit space(RLIMIT_AS, pages * static_cast<std::size_t>(::getpagesize()) + (16 << 20));
  EXPECT_EQ(Segment::create(64 << 20, Sharing::Host).code(), Errc::System);
  EXPECT_EQ(log.joined(),
            "soft fabric: 67108864 bytes of memory cannot be mapped: Cannot allocate memory\n");
  EXPECT_EQ(open_files(), files);
}
#endif

}  // namespace
}  // namespace mesh::soft
