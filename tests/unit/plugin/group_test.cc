// Groups of receives in every version. The sizes that NCCL passes are int before v9 and size_t
// since then; the sizes that it gets back are int in all versions.
#include "tests/unit/plugin/plugin_test.h"

namespace mesh::plugin {
namespace {

class Groups : public PluginTest {
 protected:
  // Runs the body with a comm to itself in each version.
  static void in_every_version(
      const std::function<void(const AnyNet& net, const Connected& made)>& body) {
    for (const AnyNet& net : every_net()) {
      SCOPED_TRACE(net.version);
      void* context = nullptr;
      ASSERT_EQ(net.init(LogCatcher::log, NCCL_NET_TRAFFIC_CLASS_UNDEF, &context), ncclSuccess);
      const Connected made = connect_to_self(net, context);
      body(net, made);
      close_all(net, made);
      EXPECT_EQ(net.finalize(context), ncclSuccess);
    }
  }
};

TEST_F(Groups, HaveOneRequestAndASizeOfEachMember) {
  in_every_version([](const AnyNet& net, const Connected& made) {
    char data[8];
    for (const int n : {2, 8}) {
      void* request = nullptr;
      ASSERT_EQ(net.irecv({made.recv, data, 100, 40, nullptr, n}, &request), ncclSuccess);
      ASSERT_NE(request, nullptr);
      ASSERT_EQ(state().group.size(), static_cast<std::size_t>(n));
      std::array<int, 9> sizes;
      sizes.fill(-7);
      int done = 77;
      state().test_answer = Errc::WouldBlock;
      EXPECT_EQ(net.test(request, &done, sizes.data()), ncclSuccess);
      EXPECT_EQ(done, 0);
      state().test_answer = Errc::Ok;
      EXPECT_EQ(net.test(request, &done, sizes.data()), ncclSuccess);
      EXPECT_EQ(done, 1);
      for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) {
        EXPECT_EQ(state().group[i].bytes, 100 + i);
        EXPECT_EQ(state().group[i].tag, 40 + i);
        EXPECT_EQ(sizes[i], static_cast<int>(40 + i)) << "the fake says the tag";
      }
      EXPECT_EQ(sizes[static_cast<std::size_t>(n)], -7) << "there is no such member";
    }
  });
}

TEST_F(Groups, WithoutSlotsAreNoError) {
  in_every_version([](const AnyNet& net, const Connected& made) {
    char data[8];
    void* request = &data;
    state().irecv_answer = Errc::WouldBlock;
    EXPECT_EQ(net.irecv({made.recv, data, 8, 0, nullptr, 8}, &request), ncclSuccess);
    EXPECT_EQ(request, nullptr);
    state().irecv_answer = Errc::Ok;
  });
}

TEST_F(Groups, ThatFailAreErrors) {
  in_every_version([](const AnyNet& net, const Connected& made) {
    char data[8];
    void* request = nullptr;
    ASSERT_EQ(net.irecv({made.recv, data, 8, 0, nullptr, 8}, &request), ncclSuccess);
    state().test_answer = Errc::PeerClosed;
    int done = 77;
    EXPECT_NE(net.test(request, &done, nullptr), ncclSuccess);
    EXPECT_EQ(done, 0);
    state().test_answer = Errc::Ok;
  });
}

}  // namespace
}  // namespace mesh::plugin
