// Rows of a group go out in as few writes as they fit into, and now and then with a completion.

#include "src/verbs/wr_rows.h"

#include "tests/prelude.h"

namespace mesh::verbs {
namespace {

struct Posted {
  std::uint64_t address = 0, wr_id = 0;
  std::uint32_t rkey = 0;
  bool signaled = false;
  std::vector<std::uint64_t> words;
};
std::vector<Posted> g_posted;

int take(ibv_qp*, ibv_send_wr* wr, ibv_send_wr**) {
  for (; wr != nullptr; wr = wr->next) {
    EXPECT_EQ(wr->opcode, IBV_WR_RDMA_WRITE);
    EXPECT_EQ(wr->num_sge, 1);
    EXPECT_NE(wr->send_flags & IBV_SEND_INLINE, 0u);
    const auto* const words = reinterpret_cast<const std::uint64_t*>(wr->sg_list->addr);
    g_posted.push_back({.address = wr->wr.rdma.remote_addr,
                        .wr_id = wr->wr_id,
                        .rkey = wr->wr.rdma.rkey,
                        .signaled = (wr->send_flags & IBV_SEND_SIGNALED) != 0,
                        .words = {words, words + wr->sg_list->length / sizeof *words}});
  }
  return 0;
}

class WrRowsTest : public testing::Test {
 protected:
  WrRowsTest() {
    context_.ops.post_send = take;
    qp_.context = &context_;
    std::iota(rows_.words(), rows_.words() + WrRows::kBytesMax / sizeof(std::uint64_t), 0);
  }
  // Posts the first `bytes` bytes, with or without asking for a completion. Returns the writes.
  std::vector<Posted> post(std::uint32_t bytes, bool signaled = false) {
    g_posted.clear();
    const std::uint32_t writes = rows_.shape(bytes);
    const RemoteTarget target{.address = 4096, .rkey = 7};
    EXPECT_EQ(signaled ? rows_.post_signaled(&qp_, target, 99) : rows_.post(&qp_, target), 0);
    EXPECT_EQ(g_posted.size(), writes);
    return g_posted;
  }

  ibv_context context_{};
  ibv_qp qp_{};
  WrRows rows_;
};

TEST_F(WrRowsTest, EveryWriteTakesWhatItHasRoomFor) {
  for (const std::uint32_t each : {32u, 64u, 96u, 128u, 256u}) {
    rows_.set_up(each, 5);
    for (const std::uint32_t bytes : {256u, 64u, 160u, 160u, 32u, 256u}) {
      std::uint64_t next = 0;
      const std::vector<Posted> posted = post(bytes);
      EXPECT_EQ(posted.size(), (bytes + each - 1) / each);
      for (const Posted& write : posted) {
        EXPECT_EQ(write.address, 4096 + next * sizeof next);
        EXPECT_EQ(write.rkey, 7u);
        EXPECT_EQ(write.wr_id, 5u);
        EXPECT_FALSE(write.signaled);
        for (const std::uint64_t word : write.words) EXPECT_EQ(word, next++);
      }
      EXPECT_EQ(next * sizeof next, bytes) << each;
    }
  }
}

TEST_F(WrRowsTest, OnlyTheLastOfASignaledPostCompletesAndTheNextPostIsSilent) {
  rows_.set_up(64, 5);
  const std::vector<Posted> posted = post(256, true);
  for (std::size_t i = 0; i < posted.size(); ++i) {
    EXPECT_EQ(posted[i].signaled, i + 1 == posted.size());
    EXPECT_EQ(posted[i].wr_id, i + 1 == posted.size() ? 99u : 5u);
  }
  for (const Posted& write : post(256)) {
    EXPECT_FALSE(write.signaled);
    EXPECT_EQ(write.wr_id, 5u);
  }
}

}  // namespace
}  // namespace mesh::verbs
