#include "perf/mesh_doctor/checks.h"

#include <fmt/format.h>

#include <algorithm>

namespace mesh::doctor {
namespace {

// Returns true if the finding leaves a port out: that no rail is left only follows from it.
bool explains_no_rail(const Finding& each) {
  const bool of_gids = each.name.starts_with("gid-") && each.severity == Severity::Broken;
  return of_gids || each.name == "hca-names-none" || each.name == "no-provider" ||
         each.name == "card-silent";
}

// Returns true if the plugin refuses to start for the interface that the finding is about.
bool explains_refusal(const HostFacts& facts, const Finding& each) {
  return each.name == "interface-names-none" &&
         facts.plugin_error.find("NCCL_SOCKET_IFNAME") != std::string::npos;
}

// Returns the remedies of the ports that are no rails, each once.
std::string remedies(const std::vector<RefusalFacts>& refused) {
  std::string text;
  for (const RefusalFacts& each : refused) {
    const std::string remedy = remedy_of(each.kind);
    if (text.find(remedy) == std::string::npos) text += (text.empty() ? "" : " ") + remedy;
  }
  return text;
}

std::string no_rail_remedy(const HostFacts& facts) {
  if (!facts.no_rdma.empty())
    return "Install rdma-core (libibverbs1 and ibverbs-providers), which the plugin loads.";
  if (!facts.refused.empty()) return remedies(facts.refused);
  return facts.ports.empty() ? "Check that the card is on the bus (lspci) and that its driver is "
                               "loaded (rdma link)."
                             : remedy_of(RefusalKind::Down);
}

}  // namespace

std::string remedy_of(RefusalKind kind) {
  switch (kind) {
    case RefusalKind::Unusable:
      return "Look for the cause in the kernel's log (dmesg), or exclude the port by NCCL_IB_HCA.";
    case RefusalKind::Down: return "Bring the port up (ip link set), with its cable plugged in.";
    case RefusalKind::LeftOut: return "Correct NCCL_IB_HCA.";
    case RefusalKind::NoAddress:
      return "Bring the port's interface up and give it an address, or exclude the port by "
             "NCCL_IB_HCA.";
    case RefusalKind::NoPartition:
      return "Correct NCCL_IB_PKEY or NCCL_IB_PKEY_VALUE, or add the port to the partition in the "
             "subnet manager.";
    case RefusalKind::NoMemory:
      return "Remove the limit of locked memory (ulimit -l unlimited; memlock-small names the "
             "places), or, if there is none, free memory.";
    case RefusalKind::Limited:
      return "Use another card, or exclude this one by NCCL_IB_HCA: it grants less than the "
             "plugin needs.";
    case RefusalKind::IWarp:
      return "Switch the card to RoCE: for Intel's irdma, devlink dev param set pci/ADDRESS name "
             "enable_iwarp value false cmode runtime, then enable_roce value true. Chelsio T6 and "
             "Intel X722 have no RoCE.";
  }
  return {};
}

void check_cards(const HostFacts& facts, Findings& found) {
  for (const SilentCard& each : facts.silent) {
    add_finding(
        found, "card-silent", facts.host,
        {.about = each.card,
         .evidence =
             fmt::format("{} has not answered {} in {} ms.", each.card, each.call, each.waited_ms),
         .remedy = fmt::format("Look for the cause in the kernel's log (dmesg), and reset the card "
                               "or restart the host. Until then NCCL_IB_HCA=^={} leaves it out.",
                               each.card)});
  }
}

void check_plugin(const HostFacts& facts, Findings& found) {
  const auto explains = [&facts](const Finding& each) { return explains_refusal(facts, each); };
  if (std::any_of(found.begin(), found.end(), explains)) return;
  if (!facts.plugin_error.empty()) {
    add_finding(
        found, "no-plugin", facts.host,
        {.about = facts.plugin_file,
         .evidence = facts.plugin_error,
         .remedy = facts.plugin.empty()
                       ? "Install the same nccl-mesh on every host, or name its file with --plugin."
                       : "Correct what the plugin names here: a job with this fault ends, or uses "
                         "another transport."});
    return;
  }
  if (!facts.rails.empty() || std::any_of(found.begin(), found.end(), explains_no_rail)) return;
  add_finding(found, "no-rail", facts.host,
              {.about = {},
               .evidence = fmt::format("{}", fmt::join(facts.notes, "; ")),
               .remedy = no_rail_remedy(facts)});
}

bool is_silent(const HostFacts& facts, const PortFacts& port) {
  return std::any_of(facts.silent.begin(), facts.silent.end(),
                     [&port](const SilentCard& each) { return each.card == port.device; });
}

const RailFacts* rail_of(const HostFacts& facts, const std::string& port) {
  const auto rail = std::find_if(facts.rails.begin(), facts.rails.end(),
                                 [&port](const RailFacts& each) { return each.name == port; });
  return rail == facts.rails.end() ? nullptr : &*rail;
}

const SettingFacts* variable(const HostFacts& facts, const std::string& name) {
  const auto& all = facts.software.settings;  // the effective ones come first
  const auto found = std::find_if(all.begin(), all.end(),
                                  [&name](const SettingFacts& each) { return each.name == name; });
  return found == all.end() ? nullptr : &*found;
}

const SettingFacts* setting(const HostFacts& facts, const std::string& name) {
  const SettingFacts* const found = variable(facts, name);
  return found == nullptr || found->value.empty() ? nullptr : found;
}

Findings check_host(const HostFacts& facts) {
  Findings found;
  check_ports(facts, found);
  check_gids(facts, found);
  check_counters(facts, found);
  check_pcie(facts, found);
  check_machine(facts, found);
  check_network(facts, found);
  check_software(facts, found);
  check_settings(facts, found);
  check_cards(facts, found);
  check_plugin(facts, found);
  return found;
}

}  // namespace mesh::doctor
