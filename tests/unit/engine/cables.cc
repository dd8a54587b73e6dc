#include "tests/unit/engine/cables.h"

#include "tests/prelude.h"

namespace mesh::testkit {
namespace {
soft::Fault port_down(int cable) {
  return {.kind = soft::FaultKind::PortDown, .nic = fmt::format("n{}", cable)};
}
}  // namespace

std::string cables(int count) {
  std::string nics[2], links;
  for (int i = 0; i < count; ++i) {
    const char* const comma = i == 0 ? "" : ",";
    for (int host = 0; host < 2; ++host) {
      nics[host] +=
          fmt::format(R"({}{{"name":"n{}","address":"10.0.{}.{}/24"}})", comma, i, i + 1, host + 1);
    }
    links += fmt::format(R"({}{{"ends":["a/n{}","b/n{}"]}})", comma, i, i);
  }
  return fmt::format(
      R"({{"name":"cables","hosts":[{{"name":"a","nics":[{}]}},{{"name":"b","nics":[{}]}}],
          "links":[{}]}})",
      nics[0], nics[1], links);
}

std::vector<std::uint64_t> bytes_by_cable(const Bed& bed, int count) {
  std::vector<std::uint64_t> bytes;
  bytes.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i)
    bytes.push_back(bed.hosts[0].provider->counters(fmt::format("n{}", i)).bytes);
  return bytes;
}

void cut_cable(Bed& bed, int cable) {
  for (BedHost& host : bed.hosts) EXPECT_TRUE(host.provider->faults().arm(port_down(cable)).ok());
}

void mend_cable(Bed& bed, int cable) {
  for (BedHost& host : bed.hosts) host.provider->faults().lift(port_down(cable));
}

std::string row(int count, bool ring) {
  std::string hosts, links;
  for (int i = 0; i < count; ++i) {
    const char name = static_cast<char>('a' + i);
    const int before = i == 0 ? count : i;
    hosts += fmt::format(R"({}{{"name":"{}","nics":[{{"name":"n0","address":"10.0.{}.2/24"}},)"
                         R"({{"name":"n1","address":"10.0.{}.1/24"}}]}})",
                         i == 0 ? "" : ",", name, before, i + 1);
    if (i + 1 == count && !ring) continue;
    links += fmt::format(R"({}{{"ends":["{}/n1","{}/n0"]}})", i == 0 ? "" : ",", name,
                         static_cast<char>('a' + (i + 1) % count));
  }
  return fmt::format(R"({{"name":"row","hosts":[{}],"links":[{}]}})", hosts, links);
}

}  // namespace mesh::testkit
