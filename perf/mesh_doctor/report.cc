#include "perf/mesh_doctor/report.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace mesh::doctor {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr std::size_t kColumns = 80;
constexpr std::string_view kIndent = "  ";

// Breaks lines between words.
std::string wrapped(const std::string& words) {
  std::string all, line(kIndent);
  std::size_t at = 0;
  while (at < words.size()) {
    const std::size_t end = std::min(words.find(' ', at), words.size());
    const std::string word = words.substr(at, end - at);
    if (line.size() > kIndent.size() && line.size() + 1 + word.size() > kColumns) {
      all += line + "\n";
      line = kIndent;
    }
    line += (line.size() > kIndent.size() ? " " : "") + word;
    at = end + 1;
  }
  return all + line + "\n";
}

std::string rail_line(const RailFacts& rail) {
  std::string addresses;
  for (const Address& each : rail.addresses)
    addresses += (addresses.empty() ? "" : ", ") + each.text;
  return fmt::format("  rail {}  {}  {:g} Gb/s  MTU {}{}\n", rail.name, addresses,
                     rail.speed_mbps / 1000.0, rail.mtu, rail.pci.empty() ? "" : "  " + rail.pci);
}

// Returns the libraries that a job started from this environment would take.
std::string software_lines(const SoftwareFacts& software) {
  std::string lines;
  for (const LibraryFacts& each : software.nccl) {
    lines += fmt::format("  NCCL {}, found by {}: {}\n",
                         each.version.empty() ? "of unknown version" : each.version, each.found_by,
                         each.path);
  }
  if (software.plugins.empty())
    return lines + "  NCCL would load no network plugin from this environment\n";
  const LibraryFacts& first = software.plugins.front();
  return lines + fmt::format("  NCCL would load {}{}\n", first.path,
                             first.ours ? "" : ", which is not nccl-mesh");
}

std::string host_lines(const HostFacts& facts) {
  std::string lines = facts.host + ": " + (facts.plugin.empty() ? "no plugin" : facts.plugin);
  if (!facts.plugin_version.empty()) lines += ", nccl-mesh " + facts.plugin_version;
  lines += "\n";
  for (const RailFacts& rail : facts.rails) lines += rail_line(rail);
  for (const std::string& note : facts.notes) lines += wrapped(note);
  // Without files of the host nothing of this is known.
  if (!facts.machine.processor.empty()) lines += software_lines(facts.software);
  if (!facts.machine.acs_known)
    lines +=
        "  only root can see whether PCI bridges redirect traffic between card and GPU through the "
        "CPU\n";
  return lines;
}

std::string paragraph(const Finding& finding) {
  const std::string head =
      fmt::format("{} {}: {}", finding.severity == Severity::Broken ? "BROKEN " : "WARNING",
                  finding.name, finding.host);
  return head + (finding.about.empty() ? "" : ", " + finding.about) + "\n" +
         wrapped(finding.evidence) + wrapped("Remedy: " + finding.remedy) + "\n";
}

std::size_t count(const Report& report, Severity severity) {
  return static_cast<std::size_t>(
      std::count_if(report.findings.begin(), report.findings.end(),
                    [severity](const Finding& each) { return each.severity == severity; }));
}

std::string plural(std::size_t number, const char* noun) {
  return fmt::format("{} {}{}", number, noun, number == 1 ? "" : "s");
}

std::string summary(const Report& report) {
  const std::string hosts = plural(report.hosts.size(), "host");
  if (report.findings.empty()) return "healthy: nothing wrong was found on " + hosts + "\n";
  return fmt::format("{} broken, {} on {}\n", count(report, Severity::Broken),
                     plural(count(report, Severity::Warning), "warning"), hosts);
}

const char* verdict(int status) {
  return status == kHealthy ? "healthy" : status == kWarnings ? "warnings" : "broken";
}

}  // namespace

int exit_status(const Report& report) noexcept {
  if (report.findings.empty()) return kHealthy;
  return count(report, Severity::Broken) != 0 ? kBroken : kWarnings;
}

std::string text(const Report& report) {
  std::string all;
  for (const HostFacts& host : report.hosts) all += host_lines(host);
  for (const std::string& section : report.sections) all += "\n" + section;
  all += "\n";
  for (const Severity severity : {Severity::Broken, Severity::Warning}) {
    for (const Finding& each : report.findings) {
      if (each.severity == severity) all += paragraph(each);
    }
  }
  return all + summary(report);
}

std::string json(const Report& report, const std::string& more) {
  OrderedJson root{{"verdict", verdict(exit_status(report))}, {"findings", OrderedJson::array()}};
  for (const Finding& each : report.findings) {
    root["findings"].push_back({{"name", each.name},
                                {"severity", severity_name(each.severity)},
                                {"host", each.host},
                                {"about", each.about},
                                {"evidence", each.evidence},
                                {"remedy", each.remedy}});
  }
  root["hosts"] = OrderedJson::array();
  for (const HostFacts& host : report.hosts)
    root["hosts"].push_back(OrderedJson::parse(to_text(host)));
  if (!more.empty()) root.update(OrderedJson::parse(more));
  return root.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

}  // namespace mesh::doctor
