#pragma once
// The findings of the doctor, each of a kind from one table, which the page and a test list.
// Thread: any (values). Bound: the table.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mesh::doctor {

enum class Severity : std::uint8_t {
  Warning,  // it works, and slower or less safely than it could
  Broken,   // a job would fail, hang, or run over another network
};

const char* severity_name(Severity severity) noexcept;

// One line of the table.
struct FindingKind {
  const char* name;
  Severity severity;
  const char* meaning;
};

std::span<const FindingKind> finding_kinds() noexcept;

struct Finding {
  std::string name;
  Severity severity = Severity::Warning;
  std::string host;      // or hosts: "a and b"
  std::string about;     // a rail, a cable, a file, a setting
  std::string evidence;  // what was read or measured
  std::string remedy;
};

struct Remark {
  std::string about, evidence, remedy;
};

// Makes a finding; `name` must be one of the table.
Finding finding(std::string_view name, const std::string& host, Remark remark);
void add_finding(std::vector<Finding>& found, std::string_view name, const std::string& host,
                 Remark remark);

// Returns the findings between hosts, without those whose cause is among a host's own findings.
std::vector<Finding> without_echoes(std::vector<Finding> between, const std::vector<Finding>& own);

}  // namespace mesh::doctor
