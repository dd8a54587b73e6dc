#include "perf/mesh_doctor/checks.h"
#include "perf/mesh_doctor/libraries.h"

#include "src/base/setting_grammar.h"
#include "src/base/version.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

namespace mesh::doctor {
namespace {

constexpr NcclVersion kOldest{2, 12, 0};  // the first with an interface that the plugin has
constexpr NcclVersion kArmMended{2, 29,
                                 3};  // on Arm, 2.28.9 and 2.29.2 stop in a pool of the proxy

std::string library_text(const LibraryFacts& library) {
  return fmt::format("{} {} (found by {})", library.path, library.version, library.found_by);
}

void check_version(const HostFacts& facts, const LibraryFacts& library, Findings& found) {
  if (library.version.empty()) return;
  const NcclVersion version = version_numbers(library.version);
  const std::string evidence = library_text(library);
  if (version < kOldest) {
    add_finding(found, "nccl-too-old", facts.host,
                {.about = library.path,
                 .evidence = evidence + " has none of the interfaces that nccl-mesh offers.",
                 .remedy = "Install NCCL 2.12 or later, one version on every host."});
  } else if (version < kArmMended && facts.machine.processor == "aarch64") {
    add_finding(
        found, "nccl-hangs", facts.host,
        {.about = library.path,
         .evidence = evidence +
                     " can hang in its proxy on this processor (aarch64), whatever plugin it uses.",
         .remedy =
             "Install NCCL 2.29.3 or later: pip install --upgrade nvidia-nccl-cu13 (or -cu12)."});
  }
}

void check_two(const HostFacts& facts, Findings& found) {
  const auto& all = facts.software.nccl;
  const auto other = std::find_if(all.begin(), all.end(), [&all](const LibraryFacts& each) {
    const bool known = !each.version.empty() && !all.front().version.empty();
    return known && each.version != all.front().version && each.file != all.front().file;
  });
  if (other == all.end()) return;
  add_finding(found, "two-nccl", facts.host,
              {.about = "libnccl.so.2",
               .evidence = fmt::format("Two versions are found: {}, and {}.",
                                       library_text(all.front()), library_text(*other)),
               .remedy = "Remove one of them, or take it out of LD_PRELOAD and LD_LIBRARY_PATH. "
                         "NCCL_DEBUG=VERSION shows which one a job loads."});
}

// Returns false if NCCL looks for the library of its own name.
bool names_plugin(const HostFacts& facts) {
  const SettingFacts* const chosen = variable(facts, "NCCL_NET_PLUGIN");
  return chosen != nullptr && (!chosen->value.empty() || takes_empty_for_none(facts.software.nccl));
}

// Returns what chooses the plugin, "NCCL_NET_PLUGIN=aws-ofi in the environment".
std::string chosen_plugin(const HostFacts& facts) {
  const SettingFacts* const chosen = variable(facts, "NCCL_NET_PLUGIN");
  if (chosen == nullptr) return "NCCL_NET_PLUGIN is not set";
  if (chosen->value.empty()) return "NCCL_NET_PLUGIN is empty, which this NCCL takes for not set,";
  return fmt::format("NCCL_NET_PLUGIN={} in {}", chosen->value, chosen->source);
}

// Without files of the host nothing is known of a job's environment.
void check_chosen(const HostFacts& facts, Findings& found) {
  if (facts.machine.processor.empty() || names_plugin(facts)) return;
  add_finding(
      found, "plugin-not-chosen", facts.host,
      {.about = "NCCL_NET_PLUGIN",
       .evidence = chosen_plugin(facts) +
                   " in the environment or in nccl.conf, and no libnccl-net.so is installed. A job "
                   "started from here runs without nccl-mesh, and NCCL says nothing.",
       .remedy = fmt::format("Set NCCL_NET_PLUGIN={} and NCCL_NET=Mesh for every rank: with both, "
                             "a job fails rather than use another transport.",
                             facts.plugin_file)});
}

void check_choice(const HostFacts& facts, Findings& found) {
  const SoftwareFacts& software = facts.software;
  for (const std::string& name : software.missing_plugins) {
    add_finding(found, "plugin-missing", facts.host,
                {.about = name,
                 .evidence = "NCCL_NET_PLUGIN names this library, and the loader does not find it; "
                             "NCCL then runs without it.",
                 .remedy = "Set NCCL_NET_PLUGIN=" + facts.plugin_file});
  }
  if (software.plugins.empty()) return check_chosen(facts, found);
  const LibraryFacts& first = software.plugins.front();
  if (!first.ours) {
    add_finding(found, "foreign-plugin", facts.host,
                {.about = first.path,
                 .evidence = fmt::format(
                     "NCCL would load this library, which is not nccl-mesh: {} (found by {}).",
                     chosen_plugin(facts), first.found_by),
                 .remedy = "Set NCCL_NET_PLUGIN=" + facts.plugin_file});
    return;
  }
  const std::string& loaded = facts.plugin_version;
  if (loaded.empty() || loaded == version()) return;
  add_finding(found, "plugin-other-version", facts.host,
              {.about = facts.plugin_file,
               .evidence = fmt::format(
                   "NCCL would load nccl-mesh {}, and this tool belongs to nccl-mesh {}.", loaded,
                   version()),
               .remedy = "Set NCCL_NET_PLUGIN to the newer one on every host."});
}

bool selected(const HostFacts& facts, const PortFacts& port) {
  const SettingFacts* const hca = setting(facts, "NCCL_IB_HCA");
  return hca == nullptr || NameRule(hca->value).matches(port.device, port.port);
}

void check_provider(const HostFacts& facts, const PortFacts& port, Findings& found) {
  const std::vector<std::string>& providers = facts.software.verbs_providers;
  add_finding(
      found, "no-provider", facts.host,
      {.about = port.device,
       .evidence =
           fmt::format("The kernel has this device, and libibverbs does not show it: {}.",
                       port.verbs_file.empty() ? "there is no file for it in /dev/infiniband"
                       : providers.empty()
                           ? "libibverbs has no user-space driver (provider) in its folder"
                           : fmt::format("none of its user-space drivers (providers) takes it: {}",
                                         fmt::join(providers, ", "))),
       .remedy =
           port.verbs_file.empty()
               ? "Give the container the device (--device /dev/infiniband), or load the kernel's "
                 "module ib_uverbs."
               : "Install libibverbs and its providers from one release (rdma-core, "
                 "ibverbs-providers, or the vendor's OFED); ibv_devinfo then shows the device."});
}

}  // namespace

bool is_unseen(const HostFacts& facts, const PortFacts& port) {
  if (facts.plugin.empty() || !facts.plugin_error.empty() || !facts.no_rdma.empty()) return false;
  return selected(facts, port) && rail_of(facts, port.name) == nullptr &&
         reason_of(facts, port).empty() && !is_silent(facts, port);
}

void check_software(const HostFacts& facts, Findings& found) {
  std::vector<std::string> seen;  // files
  for (const LibraryFacts& library : facts.software.nccl) {
    if (std::find(seen.begin(), seen.end(), library.file) == seen.end())
      check_version(facts, library, found);
    seen.push_back(library.file);
  }
  if (!facts.software.nccl.empty()) check_two(facts, found);
  check_choice(facts, found);
  for (const PortFacts& port : facts.ports) {
    if (is_unseen(facts, port)) check_provider(facts, port, found);
  }
}

}  // namespace mesh::doctor
