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
