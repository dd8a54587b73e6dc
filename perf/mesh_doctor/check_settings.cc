#include "perf/mesh_doctor/checks.h"
#include "perf/mesh_doctor/libraries.h"

#include "src/base/nccl_table.h"
#include "src/base/setting_grammar.h"
#include "src/base/settings_table.h"

#include <fmt/format.h>
#include <strings.h>

#include <algorithm>
#include <array>
#include <set>

namespace mesh::doctor {
namespace {

// Settings that choose networks: in a file they hold for all jobs of a host and are soon forgotten.
constexpr std::array kChoosing{"NCCL_NET",          "NCCL_IB_DISABLE",    "NCCL_IB_HCA",
                               "NCCL_IB_GID_INDEX", "NCCL_SOCKET_IFNAME", "NCCL_TOPO_FILE"};

std::string text_of(const SettingFacts& setting) {
  return fmt::format("{}={} (from {})", setting.name, setting.value, setting.source);
}

bool same(const std::string& one, const char* other) {
  return ::strcasecmp(one.c_str(), other) == 0;
}

bool in_environment(const SettingFacts& setting) { return setting.source == "the environment"; }

void check_net(const HostFacts& facts, Findings& found) {
  const SettingFacts* const net = variable(facts, "NCCL_NET");
  if (net == nullptr || same(net->value, "Mesh")) return;
  const char* const effect =
      net->value.empty() ? " is the name of no network, so NCCL fails at the start of every job."
                         : " keeps NCCL from using nccl-mesh, whose network is called Mesh.";
  add_finding(found, "other-net", facts.host,
              {.about = "NCCL_NET",
               .evidence = text_of(*net) + effect,
               .remedy = "Unset NCCL_NET, or set it to Mesh."});
}

void check_plugin_off(const HostFacts& facts, Findings& found) {
  const SettingFacts* const plugin = variable(facts, "NCCL_NET_PLUGIN");
  if (plugin == nullptr) return;
  const bool named = plugin->value.find_first_not_of(',') != std::string::npos;
  if (named ? !same(plugin->value, "none") : !takes_empty_for_none(facts.software.nccl)) return;
  const char* const why =
      named ? "." : ": NCCL 2.27 and later takes a list without a name for none.";
  add_finding(found, "plugin-off", facts.host,
              {.about = "NCCL_NET_PLUGIN",
               .evidence = text_of(*plugin) + " keeps NCCL from loading any plugin" + why,
               .remedy = "Set NCCL_NET_PLUGIN=" + facts.plugin_file});
}

void check_hca(const HostFacts& facts, Findings& found) {
  const SettingFacts* const hca = setting(facts, "NCCL_IB_HCA");
  if (hca == nullptr || facts.ports.empty()) return;
  const NameRule rule(hca->value);
  std::string ports;
  for (const PortFacts& port : facts.ports) {
    if (rule.matches(port.device, port.port)) return;
    ports += (ports.empty() ? "" : ", ") + port.name;
  }
  add_finding(found, "hca-names-none", facts.host,
              {.about = "NCCL_IB_HCA",
               .evidence = text_of(*hca) + " selects none of this host's ports: " + ports + ".",
               .remedy = "Unset NCCL_IB_HCA, or name ports of this host."});
}

void check_interface(const HostFacts& facts, Findings& found) {
  const SettingFacts* const name = setting(facts, "NCCL_SOCKET_IFNAME");
  if (name == nullptr || facts.machine.interfaces.empty()) return;
  const NameRule rule(name->value);
  const std::vector<std::string>& all = facts.machine.interfaces;
  if (std::any_of(all.begin(), all.end(),
                  [&rule](const std::string& each) { return rule.matches(each); }))
    return;
  add_finding(
      found, "interface-names-none", facts.host,
      {.about = "NCCL_SOCKET_IFNAME",
       .evidence = fmt::format("{} names none of this host's interfaces: {}.", text_of(*name),
                               fmt::join(all, ", ")),
       .remedy = "Set NCCL_SOCKET_IFNAME to the interface of the network that all hosts share."});
}

void check_unknown(const HostFacts& facts, const SettingFacts& setting, Findings& found) {
  const auto table = settings_table();
  const bool known = std::any_of(table.begin(), table.end(), [&setting](const Setting& each) {
    return each.name == setting.name;
  });
  if (known || !setting.name.starts_with("NCCL_MESH_")) return;
  add_finding(found, "setting-unknown", facts.host,
              {.about = setting.name,
               .evidence = text_of(setting) + ": nccl-mesh has no such setting.",
               .remedy = "Correct the name (plugin/REFERENCE.md has all settings), or unset it."});
}

void check_idle(const HostFacts& facts, const SettingFacts& setting, Findings& found) {
  const auto table = nccl_table();
  const auto row = std::find_if(table.begin(), table.end(), [&setting](const NcclSetting& each) {
    return each.name == setting.name;
  });
  if (row == table.end() || row->standing == Standing::Honoured || setting.value == row->usual ||
      setting.value.empty())
    return;
  add_finding(found, "setting-idle", facts.host,
              {.about = setting.name,
               .evidence = fmt::format("{} has no effect with nccl-mesh: {}.", text_of(setting),
                                       row->reason),
               .remedy = "Unset it, so that nobody relies on it."});
}

// A setting that has a finding of its own gets no second one.
void check_leftover(const HostFacts& facts, const SettingFacts& setting, Findings& found) {
  const bool chooses =
      std::find(kChoosing.begin(), kChoosing.end(), setting.name) != kChoosing.end();
  const bool mesh = setting.name == "NCCL_NET" && same(setting.value, "Mesh");
  const bool known = std::any_of(found.begin(), found.end(), [&setting](const Finding& each) {
    return each.about == setting.name;
  });
  if (in_environment(setting) || !chooses || mesh || known) return;
  add_finding(found, "conf-leftover", facts.host,
              {.about = setting.source,
               .evidence = fmt::format(
                   "This file sets {}={} for every job of this host that does not set it itself.",
                   setting.name, setting.value),
               .remedy = "Remove the line, unless all jobs of this host need it."});
}

}  // namespace

void check_settings(const HostFacts& facts, Findings& found) {
  check_net(facts, found);
  check_plugin_off(facts, found);
  check_hca(facts, found);
  check_interface(facts, found);
  std::set<std::string> seen;  // a name that comes again further on has no effect
  for (const SettingFacts& each : facts.software.settings) {
    if (!seen.insert(each.name).second) continue;
    check_unknown(facts, each, found);
    check_idle(facts, each, found);
    check_leftover(facts, each, found);
  }
}

}  // namespace mesh::doctor
