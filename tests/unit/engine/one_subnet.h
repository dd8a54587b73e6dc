#pragma once
// Hosts a, b, ... whose ports are all in one subnet, so that datagrams tell where the cables lead.
// Thread: one.

#include "tests/unit/engine/open_bed.h"

#include "engine/data/peer_link.h"
#include "tests/prelude.h"

namespace mesh::testkit {

inline constexpr std::size_t kTalkBytes = 100'000;

// Returns a fabric of hosts a, b, ... with so many ports each, all in one subnet.
inline std::string one_subnet(const std::vector<int>& ports, const std::string& links) {
  std::vector<std::string> hosts;
  int address = 0;
  for (std::size_t host = 0; host < ports.size(); ++host) {
    std::vector<std::string> nics;
    nics.reserve(static_cast<std::size_t>(ports[host]));
    for (int port = 0; port < ports[host]; ++port)
      nics.push_back(
          fmt::format(R"({{"name": "n{}", "address": "10.0.0.{}/24"}})", port, ++address));
    hosts.push_back(fmt::format(R"({{"name": "{:c}", "nics": [{}]}})", 'a' + static_cast<int>(host),
                                fmt::join(nics, ", ")));
  }
  return fmt::format(R"({{"name": "one-subnet", "hosts": [{}], "links": [{}]}})",
                     fmt::join(hosts, ", "), links);
}

inline constexpr const char* kTwoCables =
    R"({"ends": ["a/n0", "b/n0"]}, {"ends": ["a/n1", "b/n1"]})";
class OneSubnet : public OpenBed {
 protected:
  OneSubnet() : OpenBed(kTalkBytes, 100'000) {}

  void open(const std::vector<int>& ports, const char* links, const char* rails = "all") {
    open_text(one_subnet(ports, links), rails);
  }
  void open_text(std::string text, const char* rails) {
    OpenBed::open(std::move(text), {.path_timeout_s = 8, .rails = rails});
  }
  void port(std::size_t host, int nic, bool up) {
    bed_->hosts[host].port(fmt::format("n{}", nic), up);
  }
  void ports_of_both(const std::vector<int>& nics, bool up) {
    for (const std::size_t host : {0u, 1u})
      for (const int nic : nics) port(host, nic, up);
  }
  // Names the path of the link that is up.
  static std::string path_in_use(const Talk& talk) {
    for (const engine::Path& path : talk.pair.send->link.paths().all())
      if (path.health.state == engine::PathState::Up) return path.name;
    return "none";
  }
};

}  // namespace mesh::testkit
