// The findings of the doctor, and the exit codes of all tools.
#include "perf/driver/command_line.h"
#include "perf/mesh_doctor/finding.h"
#include "tests/reference/tables.h"

namespace mesh::reference {

std::string findings() {
  std::string text = head({"finding", "severity", "meaning"});
  for (const doctor::FindingKind& kind : doctor::finding_kinds())
    text += row(
        {"`" + std::string(kind.name) + "`", doctor::severity_name(kind.severity), kind.meaning});
  return text;
}

std::string exit_codes() {
  std::string text = head({"code", "meaning", "for example"});
  for (const driver::ExitCode& each : driver::kExitCodes)
    text += row({std::to_string(each.code), each.meaning, each.example});
  return text;
}

}  // namespace mesh::reference
