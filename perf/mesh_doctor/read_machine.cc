#include "perf/mesh_doctor/kernel_network.h"
#include "perf/mesh_doctor/read_host.h"

#include <sys/utsname.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <string_view>

namespace mesh::doctor {
namespace {

constexpr unsigned kMayLock = 14;  // CAP_IPC_LOCK

// Returns the rest of the line that begins with `name`, without the blanks in front.
std::string value_of(const Tree& tree, const std::string& file, std::string_view name) {
  for (const std::string& line : tree.lines(file)) {
    if (!line.starts_with(name)) continue;
    const std::size_t begin = line.find_first_not_of(" \t", name.size());
    return begin == std::string::npos ? std::string() : line.substr(begin);
  }
  return {};
}

// Reads a number such as "        64 kB".
std::int64_t number_of(const std::string& text) {
  std::int64_t value = -1;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

void read_limits(const Tree& tree, MachineFacts& facts) {
  const std::string locked = value_of(tree, "/proc/self/limits", "Max locked memory");
  facts.memlock_unlimited = locked.starts_with("unlimited");
  if (!facts.memlock_unlimited) facts.memlock_bytes = number_of(locked);
  const std::string rights = value_of(tree, "/proc/self/status", "CapEff:");
  facts.may_lock = (std::strtoull(rights.c_str(), nullptr, 16) >> kMayLock & 1u) != 0;
}

void read_memory(const Tree& tree, MachineFacts& facts) {
  const auto number = [&tree](const char* name) {
    return number_of(value_of(tree, "/proc/meminfo", name));
  };
  facts.memory_kib = number("MemTotal:");
  facts.cma_total_kib = number("CmaTotal:");
  facts.cma_free_kib = number("CmaFree:");
  facts.huge_pages = number("HugePages_Total:");
  facts.huge_pages_free = number("HugePages_Free:");
  facts.huge_page_kib = number("Hugepagesize:");
}

std::string processor(const Tree& tree) {
  if (!tree.whole_machine()) return tree.line("/processor");  // no file of a host tells it
  utsname names{};
  return ::uname(&names) == 0 ? names.machine : "";
}

// Returns the product. Without DMI the device tree tells it, with a zero at the end.
std::string product(const Tree& tree) {
  std::string name = tree.line("/sys/class/dmi/id/product_name");
  if (name.empty()) name = tree.line("/proc/device-tree/model");
  return name.substr(0, name.find('\0'));
}

// Returns whether the bridge redirects traffic (ACS). Extended capabilities begin at 256, each with
// its kind, version and the place of the next. Returns nothing if the file ends before them, as it
// does for all but root.
std::optional<bool> redirects(const std::string& config) {
  constexpr std::size_t kFirst = 256, kWhole = 4096;
  constexpr unsigned kAcs = 0x0d, kRequest = 0x04, kCompletion = 0x08;
  if (config.size() < kWhole) return std::nullopt;
  const auto byte = [&config](std::size_t at) { return static_cast<unsigned char>(config[at]); };
  std::size_t at = kFirst;
  for (int steps = 0; steps < 64 && at >= kFirst && at + 8 <= kWhole; ++steps) {
    const unsigned kind = byte(at) | static_cast<unsigned>(byte(at + 1)) << 8;
    if (kind == kAcs) return (byte(at + 6) & (kRequest | kCompletion)) != 0;
    at = static_cast<std::size_t>(byte(at + 2) >> 4) | static_cast<std::size_t>(byte(at + 3)) << 4;
  }
  return false;
}

using Paths = std::vector<std::string>;

bool above(const std::string& bridge, const Paths& functions) {
  return std::any_of(functions.begin(), functions.end(),
                     [&bridge](const std::string& each) { return each.starts_with(bridge + "/"); });
}

// Returns true for the numbers that NVIDIA's kernel takes for this chip's GPU.
bool is_gb10(const std::string& device) {
  const unsigned long number = std::strtoul(device.c_str(), nullptr, 16);
  return number >= 0x2e00 && number <= 0x2e3f;
}

// Reads GPUs and bridges. A bridge counts if it has both a GPU and a network card below it, because
// traffic between the two may pass there.
void read_functions(const Tree& tree, MachineFacts& facts) {
  const std::string functions = "/sys/bus/pci/devices/";
  Paths gpus, cards;
  const std::vector<std::string> names = tree.names(functions);
  for (const std::string& pci : names) {
    const std::string kind = tree.line(functions + pci + "/class");
    if (kind.starts_with("0x02")) cards.push_back(tree.resolved(functions + pci));
    if (!kind.starts_with("0x03") || tree.line(functions + pci + "/vendor") != "0x10de") continue;
    facts.gpus.push_back(pci);
    facts.has_gb10 |= is_gb10(tree.line(functions + pci + "/device"));
    gpus.push_back(tree.resolved(functions + pci));
  }
  for (const std::string& pci : names) {
    if (!tree.line(functions + pci + "/class").starts_with("0x0604")) continue;
    const std::string path = tree.resolved(functions + pci);
    if (!above(path, gpus) || !above(path, cards)) continue;
    const std::optional<bool> acs = redirects(tree.text(functions + pci + "/config"));
    if (!acs) facts.acs_known = false;
    if (acs.value_or(false)) facts.acs_bridges.push_back(pci);
  }
}

}  // namespace

MachineFacts read_machine(const Tree& tree) {
  MachineFacts facts;
  facts.product = product(tree);
  facts.processor = processor(tree);
  facts.kernel = tree.line("/proc/sys/kernel/osrelease");
  read_limits(tree, facts);
  read_memory(tree, facts);
  read_functions(tree, facts);
  for (const char* const name : {"nvidia_peermem", "nv_peer_mem", "nvidia"}) {
    if (tree.has(std::string("/sys/module/") + name)) facts.modules.emplace_back(name);
  }
  facts.interfaces = tree.names("/sys/class/net");
  std::erase(facts.interfaces, "bonding_masters");  // a file of the bonding driver
  facts.ip_forward = static_cast<int>(tree.number("/proc/sys/net/ipv4/ip_forward"));
  facts.forward_policy = tree.whole_machine() ? forward_policy() : tree.line("/forward_policy");
  return facts;
}

}  // namespace mesh::doctor
