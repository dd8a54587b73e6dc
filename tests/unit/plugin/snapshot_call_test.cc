#include "plugin/snapshot_call.h"

#include "src/base/snapshot_json.h"
#include "src/base/version.h"
#include "tests/unit/plugin/plugin_test.h"

namespace mesh::plugin {
namespace {

class SnapshotCallTest : public VersionsTest {
 protected:
  static Snapshot snapshot() {
    std::string text(nccl_mesh_snapshot(nullptr, 0), '\0');
    EXPECT_EQ(nccl_mesh_snapshot(text.data(), text.size() + 1), text.size());
    std::string why;
    Result<Snapshot> read = snapshot_from(text, &why);
    EXPECT_TRUE(read.ok()) << why << "\n" << text;
    return read.ok() ? *read : Snapshot{};
  }
};

TEST_F(SnapshotCallTest, TellsWhetherTheEngineIsThere) {
  void* const context = init(net(12));
  Snapshot shot = snapshot();
  EXPECT_TRUE(shot.process.running);
  EXPECT_EQ(shot.start, "ok");
  EXPECT_EQ(shot.start_lines, std::vector<std::string>{});
  EXPECT_EQ(shot.plugin, version());
  EXPECT_EQ(shot.process.process, ::getpid());
  EXPECT_FALSE(shot.settings.empty());
  EXPECT_EQ(shot.process.interval_s, 0u) << "no files are written";
  EXPECT_EQ(net(12).finalize(context), ncclSuccess);
  EXPECT_TRUE(all_engines_end()) << "a snapshot keeps no engine";
  EXPECT_FALSE(snapshot().process.running);
}

TEST_F(SnapshotCallTest, AStartThatFailedIsToldWithItsWarnings) {
  ASSERT_EQ(::setenv("NCCL_MESH_QPS", "99", 1), 0);
  void* context = nullptr;
  EXPECT_EQ(net(12).init(LogCatcher::log, -1, &context), ncclInvalidArgument);
  ASSERT_EQ(::unsetenv("NCCL_MESH_QPS"), 0);
  const Snapshot shot = snapshot();
  EXPECT_FALSE(shot.process.running);
  EXPECT_EQ(shot.start, "invalid argument");
  ASSERT_EQ(shot.start_lines.size(), 1u);
  EXPECT_NE(shot.start_lines[0].find("NCCL_MESH_QPS"), std::string::npos);
  EXPECT_EQ(shot.warnings, shot.start_lines);
  EXPECT_EQ(net(12).finalize(init(net(12))), ncclSuccess);
  EXPECT_EQ(snapshot().start, "ok") << "the latest start counts";
  EXPECT_EQ(snapshot().warnings, std::vector<std::string>{}) << "of the latest engine";
}

TEST_F(SnapshotCallTest, AHostWithoutLibibverbsSaysWhy) {
  state().no_rdma = "libibverbs.so.1 does not load";
  void* context = nullptr;
  EXPECT_NE(net(12).init(LogCatcher::log, -1, &context), ncclSuccess);
  EXPECT_EQ(snapshot().no_rdma, state().no_rdma);
  EXPECT_EQ(snapshot().start, "not found");
  EXPECT_EQ(snapshot().fabric, "");
  state().no_rdma.clear();
  EXPECT_EQ(net(12).finalize(init(net(12))), ncclSuccess);
  EXPECT_EQ(snapshot().no_rdma, "") << "of the latest start";
}

TEST_F(SnapshotCallTest, ATextThatIsTooLongIsCutAndItsLengthTold) {
  std::string whole(nccl_mesh_snapshot(nullptr, 0), '\0');
  std::string text(32, 'x');
  EXPECT_GE(nccl_mesh_snapshot(text.data(), 8), whole.size() - 1);
  EXPECT_EQ(std::strlen(text.c_str()), 7u);
  EXPECT_EQ(text.substr(0, 7), "{\"schem");
  EXPECT_EQ(text.substr(8), std::string(24, 'x')) << "nothing is written behind the room";
}

TEST_F(SnapshotCallTest, AForkedChildHasNone) {
  void* const context = init(net(12));
  const pid_t child = ::fork();
  if (child == 0) ::_exit(nccl_mesh_snapshot(nullptr, 0) == 0 ? 0 : 1);
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(net(12).finalize(context), ncclSuccess);
}

}  // namespace
}  // namespace mesh::plugin
