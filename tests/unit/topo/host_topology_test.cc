#include "src/topo/host_topology.h"

#include "tests/prelude.h"
#include "tests/unit/base/folder.h"
#include "tests/unit/base/log_capture.h"

namespace mesh::topo {
namespace {

using mesh::testkit::LogCapture;
using Cpus = std::vector<int>;

class HostTopologyTest : public testing::Test {
 protected:
  void write(const std::string& file, const std::string& text) const {
    folder_.write(file, text + "\n");
  }

  testkit::Folder folder_;
  TopologySources sources_{.sysfs_root = folder_.root(),
                           .hwloc_library = "libhwloc-of-nobody.so.15",
                           .allowed = {0, 1, 2, 3}};
};

TEST_F(HostTopologyTest, SysfsAnswersWithoutHwlocAndOneLineSaysSo) {
  write("devices/system/cpu/online", "0-3,6");
  for (const char* cpu : {"0", "2"})
    write(std::string("devices/system/cpu/cpu") + cpu + "/topology/thread_siblings_list", "0,2");
  write("devices/system/cpu/cpu1/cpufreq/cpuinfo_max_freq", "3900000");
  write("devices/system/node/online", "0-1");
  write("devices/system/node/node0/cpulist", "0-2");
  write("devices/system/node/node1/cpulist", "3,6");
  const LogCapture log;
  const HostTopology host = read_host_topology(sources_);
  EXPECT_TRUE(log.said(LogLevel::Info, "libhwloc-of-nobody.so.15 does not load"));
  EXPECT_EQ(log.all().size(), 1u);
  ASSERT_EQ(host.cpus.size(), 5u);
  EXPECT_EQ(host.cpus[2].core, 0);
  EXPECT_EQ(host.cpus[1].core, 1);
  EXPECT_EQ(host.cpus[1].max_khz, 3'900'000);
  EXPECT_EQ(host.cpus[0].max_khz, 0);
  EXPECT_EQ(host.cpus[2].numa_node, 0);
  EXPECT_EQ(host.cpus[3].numa_node, 1);
  EXPECT_TRUE(host.cpus[3].allowed);
  EXPECT_EQ(host.cpus[4].index, 6);
  EXPECT_FALSE(host.cpus[4].allowed);
  EXPECT_EQ(host.usable_cores(), 3);
  EXPECT_EQ(host.allowed_on(1), Cpus{3});
}

TEST_F(HostTopologyTest, BareSysfsStillGivesTheAllowedOnes) {
  const HostTopology host = read_host_topology(sources_);
  EXPECT_EQ(host.usable_cores(), 4);
  EXPECT_EQ(host.cpus[3].numa_node, -1);
  EXPECT_EQ(host.quota_cpus, 0);
}

TEST_F(HostTopologyTest, QuotaOfTheContainerBoundsTheCores) {
  write("fs/cgroup/cpu.max", "250000 100000");
  EXPECT_EQ(read_host_topology(sources_).usable_cores(), 2);
  write("fs/cgroup/cpu.max", "50000 100000");
  EXPECT_EQ(read_host_topology(sources_).usable_cores(), 1);
  for (const char* none : {"max 100000", "100000", "100000 0", ""}) {
    write("fs/cgroup/cpu.max", none);
    EXPECT_EQ(read_host_topology(sources_).usable_cores(), 4) << none;
  }
}

TEST(HostTopology, HwlocAndSysfsAgreeHere) {
  const HostTopology with_hwloc = read_host_topology();
  const HostTopology without = read_host_topology({.hwloc_library = "libhwloc-of-nobody.so.15"});
  ASSERT_EQ(with_hwloc.cpus.size(), without.cpus.size());
  ASSERT_FALSE(with_hwloc.cpus.empty());
  for (std::size_t i = 0; i < without.cpus.size(); ++i) {
    EXPECT_EQ(with_hwloc.cpus[i].core, without.cpus[i].core);
    EXPECT_EQ(with_hwloc.cpus[i].allowed, without.cpus[i].allowed);
    if (without.cpus[i].numa_node < 0) continue;
    EXPECT_EQ(with_hwloc.cpus[i].numa_node, without.cpus[i].numa_node);
  }
}

TEST(HostTopology, LibraryThatIsNoHwlocIsLeftAlone) {
  const LogCapture log;
  EXPECT_FALSE(read_host_topology({.hwloc_library = "libc.so.6"}).cpus.empty());
  EXPECT_TRUE(log.said(LogLevel::Info, "another version"));
}

TEST(CpuList, ReadsWhatTheKernelWrites) {
  EXPECT_EQ(parse_cpu_list("0-3,8"), (Cpus{0, 1, 2, 3, 8}));
  EXPECT_EQ(parse_cpu_list("5"), Cpus{5});
  EXPECT_EQ(parse_cpu_list("8,2-2,1"), (Cpus{1, 2, 8}));
  EXPECT_EQ(parse_cpu_list(""), Cpus{});
  EXPECT_EQ(parse_cpu_list("x,3,4-,-7,2-1"), Cpus{3});
  EXPECT_EQ(parse_cpu_list("0-999999999").size(), static_cast<std::size_t>(kCpusMax));
}

}  // namespace
}  // namespace mesh::topo
