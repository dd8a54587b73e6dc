// A process without memory gets no queue pair, and existing objects stay intact.

#include "src/relay/end_completion_queue.h"
#include "src/relay/end_device.h"
#include "src/relay/passage.h"
#include "tests/prelude.h"
#include "tests/unit/base/log_capture.h"
#include "tests/unit/relay/middle_hosts.h"
#include "tests/unit/soft/passing_provider.h"

namespace {
// The number of allocations that still succeed on this thread; -1: all of them.
thread_local int t_allocations_left = -1;
}  // namespace

// NOLINTBEGIN(misc-new-delete-overloads): the compiler's other forms call these.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  if (t_allocations_left == 0) throw std::bad_alloc();
  if (t_allocations_left > 0) --t_allocations_left;
  void* const memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
[[gnu::noinline]] void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept try {
  return operator new(bytes);
} catch (const std::bad_alloc&) {
  return nullptr;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
// NOLINTEND(misc-new-delete-overloads)

namespace mesh::relay {
namespace {

TEST(ShortMemory, AQueuePairIsMadeWholeOrNotAtAll) {
  const mesh::testkit::LogCapture log;
  const soft::FabricFile fabric = testkit::line_fabric(1);
  const auto host = testkit::open_host(fabric, 0, soft::Agent::None);
  testkit::LineNic nic = testkit::open_nic(*host, "right");
  EndDevice device(*host, nic.context.get());
  ibv_cq* const queue = device.create_cq(nic.context.get(), 1024);
  ASSERT_NE(queue, nullptr);
  ibv_qp_init_attr asked{};
  asked.send_cq = asked.recv_cq = queue;
  asked.qp_type = IBV_QPT_RC;
  asked.cap = {.max_send_wr = 16,
               .max_recv_wr = 16,
               .max_send_sge = 1,
               .max_recv_sge = 1,
               .max_inline_data = 64};
  ibv_qp* made = nullptr;
  int failed = 0;
  for (int left = 0; made == nullptr; ++left) {
    ASSERT_LT(left, 1000);
    ibv_qp_init_attr attr = asked;
    errno = 0;
    t_allocations_left = left;
    made = device.create_qp(nic.pd.get(), &attr);
    t_allocations_left = -1;
    if (made == nullptr) {
      ++failed;
      EXPECT_EQ(errno, ENOMEM) << left;
    }
    ibv_wc completion;
    EXPECT_EQ(ibv_poll_cq(queue, 1, &completion), 0) << left;
    EXPECT_EQ(reinterpret_cast<EndCompletionQueue*>(queue)->in_use(), made != nullptr) << left;
  }
  EXPECT_GT(failed, 3);
  std::printf("%d allocations, each failed once\n", failed);
  EXPECT_EQ(device.destroy_qp(made), 0);
  EXPECT_EQ(device.destroy_cq(queue), 0);
  nic.pd.reset();
  EXPECT_TRUE(log.warned("", 0)) << "everything is given back";
}

// A device that has no memory for regions.
class NoRegions final : public mesh::testkit::PassingProvider {
 public:
  using PassingProvider::PassingProvider;
  ibv_mr* reg_mr(ibv_pd*, void*, std::size_t, int) override { return errno = ENOMEM, nullptr; }
};

TEST(ShortMemory, AChainThatGetsNoneHasTheHintAtTheLimit) {
  const mesh::testkit::LogCapture log;
  NoRegions host(testkit::open_host(testkit::line_fabric(1), 0, soft::Agent::None));
  const testkit::LineNic nic = testkit::open_nic(host, "right");
  const RailUse rail{.provider = &host, .context = nic.context.get(), .pd = nic.pd.get()};
  ChainSide side;
  EXPECT_EQ(side.create(rail, {.receives = 16, .sends = 16}).code(), Errc::System);
  Passage passage;
  EXPECT_EQ(passage.create(rail, rail, {.slots = 16}).code(), Errc::System);
  EXPECT_EQ(log.count(LogLevel::Warn, "for a chain: Cannot allocate memory ("), 2) << log.joined();
  EXPECT_EQ(log.count(LogLevel::Warn, "ulimit -l"), 2) << log.joined();
}

}  // namespace
}  // namespace mesh::relay
