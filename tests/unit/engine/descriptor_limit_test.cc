// A process may have 256 descriptors, and 250 unauthenticated connections to its control port. The
// host can still open its own files, and an honest member connects.

#include "engine/control/handle.h"
#include "tests/prelude.h"
#include "tests/unit/engine/bed.h"

namespace mesh {
namespace {

// Holds `count` silent connections to a handle's control port until it is destroyed. They live in a
// child process, whose descriptors are not ours. It makes only system calls after fork().
class Unauthenticated {
 public:
  Unauthenticated(const HandleBytes& handle_of, int count) {
    const engine::Handle handle = *engine::read_handle(handle_of);
    sockaddr_storage to{};
    const socklen_t to_bytes = handle.addresses.front().to_sockaddr(handle.port, to);
    std::array<int, 2> ready{};
    EXPECT_EQ(::pipe(ready.data()), 0);
    EXPECT_EQ(::pipe(end_.data()), 0);
    child_ = ::fork();
    if (child_ == 0) {
      rlimit limit{};
      ::getrlimit(RLIMIT_NOFILE, &limit);
      limit.rlim_cur = limit.rlim_max;
      ::setrlimit(RLIMIT_NOFILE, &limit);
      int connected = 0;
      for (int i = 0; i < count; ++i) {
        const int fd = ::socket(to.ss_family, SOCK_STREAM, 0);
        connected += ::connect(fd, reinterpret_cast<const sockaddr*>(&to), to_bytes) == 0 ? 1 : 0;
      }
      static_cast<void>(!::write(ready[1], &connected, sizeof connected));
      char byte = 0;
      ::close(end_[1]);
      static_cast<void>(!::read(end_[0], &byte, 1));
      ::_exit(0);
    }
    int connected = 0;
    EXPECT_EQ(::read(ready[0], &connected, sizeof connected),
              static_cast<ssize_t>(sizeof connected));
    EXPECT_EQ(connected, count) << "the kernel's backlog takes them";
    for (const int fd : {ready[0], ready[1], end_[0]}) ::close(fd);
  }
  ~Unauthenticated() {
    ::close(end_[1]);
    ::waitpid(child_, nullptr, 0);
  }

 private:
  std::array<int, 2> end_{};
  pid_t child_ = -1;
};

class DescriptorLimit : public testing::Test {
 protected:
  static constexpr rlim_t kLimit = 256;
  DescriptorLimit() {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    rlimit limit = before_;
    limit.rlim_cur = kLimit;
    ::setrlimit(RLIMIT_NOFILE, &limit);
  }
  ~DescriptorLimit() override { ::setrlimit(RLIMIT_NOFILE, &before_); }
  rlimit before_{};
};

TEST_F(DescriptorLimit, TwoHundredAndFiftyUnauthenticatedLeaveRoomForTheHostAndForAMember) {
  constexpr int kFiles = 100;
  testkit::Bed bed({});
  HandleBytes handle{};
  ASSERT_TRUE(bed.hosts[1].engine->listen(*bed.hosts[1].contexts[0], 0, handle).ok());
  const Unauthenticated unauthenticated(handle, 250);
  bed.tick_ns = 0;
  bed.rounds(200);  // the host accepts as many unauthenticated connections as it will
  std::vector<UniqueFd> files;
  for (int i = 0; i < kFiles; ++i) {
    files.emplace_back(::open("/proc/self/stat", O_RDONLY | O_CLOEXEC));
    ASSERT_TRUE(files.back().valid()) << "file " << i;
    bed.rounds(1);
  }
  bed.tick_ns = 10'000;
  const std::uint64_t began_ns = bed.now_ns();
  testkit::Talk talk(bed, testkit::kA, testkit::kB, 4096);
  EXPECT_LE(bed.now_ns() - began_ns, 1'000'000'000u);
  talk.exchange(4096);
}

// The host itself has used its last descriptor. The few that it then closes are enough.
TEST_F(DescriptorLimit, AMemberConnectsOnceTheHostHasGivenSomeBack) {
  testkit::Bed bed({});
  std::vector<UniqueFd> files;
  for (UniqueFd file(::open("/proc/self/stat", O_RDONLY | O_CLOEXEC)); file.valid();
       file = UniqueFd(::dup(0))) {
    files.push_back(std::move(file));
  }
  ASSERT_LT(files.size(), kLimit);
  HandleBytes handle{};
  Listener* const listener =
      bed.hosts[1].engine->listen(*bed.hosts[1].contexts[0], 0, handle).value();
  bed.tick_ns = 1'000'000;
  testkit::Pair pair;
  const auto connected = [&] {
    const Result<Channel*> sent =
        pair.send ? Result<Channel*>(pair.send)
                  : bed.hosts[0].engine->connect(*bed.hosts[0].contexts[0], 0, handle);
    EXPECT_TRUE(sent.ok() || sent.code() == Errc::WouldBlock) << errc_name(sent.code());
    pair.send = sent.value();
    if (pair.receive == nullptr) pair.receive = bed.hosts[1].engine->accept(*listener).value();
    return pair.send != nullptr && pair.receive != nullptr;
  };
  EXPECT_FALSE(bed.until(connected, 3000)) << "three seconds without";
  files.resize(files.size() - 8);
  EXPECT_TRUE(bed.until(connected, 3000));
}

}  // namespace
}  // namespace mesh
