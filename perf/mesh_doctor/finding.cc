#include "perf/mesh_doctor/finding.h"

#include "src/base/check.h"

#include <algorithm>
#include <array>

namespace mesh::doctor {

namespace {

using enum Severity;

constexpr std::array kKinds{
    // Of one host.
    FindingKind{"no-plugin", Broken, "nccl-mesh cannot be loaded, or refuses to start"},
    FindingKind{"no-rail", Broken, "no RDMA port of the host can be used"},
    // Between hosts.
    FindingKind{"host-missing", Broken, "a host did not come, or is only in the expected map"},
    FindingKind{"host-lost", Broken, "a host took part and stopped answering"},
    FindingKind{"handshake-network", Broken, "a host does not reach another one for the handshake"},
    FindingKind{"no-map", Broken, "the expected map cannot be read"},
    FindingKind{"missing-cable", Broken, "an expected cable is not there"},
    FindingKind{"extra-cable", Warning, "a cable is there that the expected map does not have"},
    FindingKind{"crossed-cables", Broken, "a port meets another port than the expected one"},
    FindingKind{"wrong-subnet", Broken, "the ends of an expected cable are in different subnets"},
    FindingKind{"lone-rail", Warning, "a rail meets no rail of the other hosts"},
    FindingKind{"cable-down", Broken, "a port of a cable is down"},
    FindingKind{"half-missing", Warning, "one of a cable's two PCIe halves is missing or down"},
    FindingKind{"mtu-differs", Warning, "the two ends of a cable have different MTUs"},
    FindingKind{"mtu-black-hole", Broken, "small packets pass a cable and full ones are lost"},
    FindingKind{"silent-cable", Broken, "two ports meet by their addresses, and nothing passes"},
    FindingKind{"flapping-port", Broken, "a port went down while its cable was measured"},
    FindingKind{"slow-cable", Warning, "a cable carries too little in both directions"},
    FindingKind{"slow-half", Warning, "one PCIe half of a cable carries too little"},
    FindingKind{"sick-direction", Warning, "one direction of a cable carries too little"},
    FindingKind{"rank-order", Warning, "neighbours in the ring have no cable; another order does"},
};

}  // namespace

const char* severity_name(Severity severity) noexcept {
  return severity == Severity::Broken ? "broken" : "warning";
}

std::span<const FindingKind> finding_kinds() noexcept { return kKinds; }

Finding finding(std::string_view name, const std::string& host, Remark remark) {
  const auto* const kind = std::find_if(
      kKinds.begin(), kKinds.end(), [name](const FindingKind& each) { return each.name == name; });
  CHECK(kind != kKinds.end());
  return {.name = kind->name,
          .severity = kind->severity,
          .host = host,
          .about = std::move(remark.about),
          .evidence = std::move(remark.evidence),
          .remedy = std::move(remark.remedy)};
}

std::string findings_markdown() {
  std::string text = "| finding | severity | meaning |\n|---|---|---|\n";
  for (const FindingKind& kind : kKinds) {
    text += std::string("| `") + kind.name + "` | " + severity_name(kind.severity) + " | " +
            kind.meaning + " |\n";
  }
  return text;
}

}  // namespace mesh::doctor
