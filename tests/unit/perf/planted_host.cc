#include "tests/unit/perf/planted_host.h"

#include "perf/mesh_doctor/read_host.h"

namespace mesh::doctor {

namespace fs = std::filesystem;

namespace {

const std::string kPlugin = "/opt/mesh/libnccl-net-mesh.so";

// Returns the content of a library with its version text among other bytes.
std::string nccl(const std::string& version) {
  return std::string("\x7f\0ELF", 5) + "NCCL version " + version + "+cuda13.0" +
         std::string("\0more", 5);
}

void append_word(std::string& text, std::uint32_t word) {
  std::array<char, sizeof(word)> bytes{};
  std::memcpy(bytes.data(), &word, sizeof(word));
  text.append(bytes.data(), bytes.size());
}

}  // namespace

std::string loader_cache(const std::string& name, const std::string& path) {
  constexpr std::uint32_t kHeaderBytes = 48, kEntryBytes = 24, kArchitecture = 0x0303;
  std::string text = "glibc-ld.so.cache1.1";
  append_word(text, 1);
  append_word(text, static_cast<std::uint32_t>(name.size() + path.size() + 2));
  text.resize(kHeaderBytes, '\0');
  const std::uint32_t texts = kHeaderBytes + kEntryBytes;
  append_word(text, kArchitecture);
  append_word(text, texts);
  append_word(text, texts + static_cast<std::uint32_t>(name.size()) + 1);
  text.resize(texts, '\0');
  return text + name + '\0' + path + '\0';
}

PlantedHost::PlantedHost(const std::string& root)
    : environment{{"PATH", "/usr/local/bin:/usr/bin"},
                  {"HOME", "/home/u"},
                  {"NCCL_NET_PLUGIN", kPlugin}},
      root_(root.empty() ? folder_.root() : root) {
  plant_half("rocep1s0f0", "0000:01:00.0", "enp1s0f0");
  plant_half("rocep1s0f1", "0000:01:00.1", "enp1s0f1");
  plant_half("roceP2p1s0f0", "0002:01:00.0", "enP2p1s0f0");
  plant_half("roceP2p1s0f1", "0002:01:00.1", "enP2p1s0f1");
  write("usr/lib/x86_64-linux-gnu/libibverbs/libmlx5-rdmav34.so", "");
  write("proc/sys/net/ipv4/conf/all/arp_ignore", "0");
  write("proc/sys/net/ipv4/ip_forward", "1");
  write("forward_policy", "drop");
  write("sys/class/net/lo/mtu", "65536");
  write("processor", "x86_64");
  write("proc/cmdline", "root=/dev/nvme0n1p2 quiet");
  write("proc/self/limits",
        "Limit                     Soft Limit           Hard Limit           Units\n"
        "Max locked memory         unlimited            unlimited            bytes");
  write("proc/self/status", "Name:\tmesh_doctor\nCapEff:\t0000000000000000");
  write("proc/meminfo",
        "MemTotal:       125000000 kB\nCmaTotal:          65536 kB\nHugePages_Total:       0\n"
        "HugePages_Free:        0\nHugepagesize:       2048 kB");
  write("usr/bin/python3.12", "");
  link("usr/bin/python3", "python3.12");
  write("usr/local/lib/python3.12/dist-packages/torch/__init__.py", "");
  write("usr/local/lib/python3.12/dist-packages/nvidia/nccl/lib/libnccl.so.2", nccl("2.29.7"));
  write("opt/nccl/libnccl.so.2", nccl("2.29.7"));
  write("etc/ld.so.cache", loader_cache("libnccl.so.2", "/opt/nccl/libnccl.so.2"));
  write(kPlugin, "NET/Mesh : %s");
}

void PlantedHost::write(const std::string& file, const std::string& text) const {
  const fs::path path = root_ + "/" + file;
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text << "\n";
}

void PlantedHost::remove(const std::string& file) const { fs::remove_all(root_ + "/" + file); }

void PlantedHost::link(const std::string& file, const std::string& target) const {
  const fs::path path = root_ + "/" + file;
  fs::create_directories(path.parent_path());
  fs::create_symlink(target, path);
}

std::string PlantedHost::port(const std::string& device) const {
  return "sys/class/infiniband/" + device + "/ports/1/";
}

std::string PlantedHost::function(const std::string& pci) {
  return "sys/devices/pci" + pci.substr(0, 7) + "/" + pci.substr(0, 5) + "00:00.0/" + pci + "/";
}

void PlantedHost::plant_half(const std::string& device, const std::string& pci,
                             const std::string& netdev) {
  const std::string function = PlantedHost::function(pci);
  write(function + "class", "0x020000");
  write(function + "vendor", "0x15b3");
  write(function + "device", "0x1021");
  write(function + "current_link_width", "4");
  write(function + "max_link_width", "16");
  write(function + "current_link_speed", "32.0 GT/s PCIe");
  write(function + "max_link_speed", "32.0 GT/s PCIe");
  write(function + "../max_link_width", "4");
  write(function + "../max_link_speed", "32.0 GT/s PCIe");
  link("sys/bus/pci/devices/" + pci, "../../../../" + function);
  const std::string folder = "sys/class/infiniband/" + device + "/";
  link(folder + "device", "../../../../" + function);
  write(folder + "sys_image_guid", "5000:e600:03f2:1234");
  write(port(device) + "state", "4: ACTIVE");
  write(port(device) + "phys_state", "5: LinkUp");
  write(port(device) + "link_layer", "Ethernet");
  write(port(device) + "rate", "200 Gb/sec (4X HDR)");
  write(port(device) + "gids/0", "fe80:0000:0000:0000:0202:c9ff:fe00:0001");
  write(port(device) + "gids/1", "0000:0000:0000:0000:0000:ffff:0a00:0c01");
  write(port(device) + "gids/2", "0000:0000:0000:0000:0000:0000:0000:0000");
  write(port(device) + "gid_attrs/types/0", "IB/RoCE v1");
  write(port(device) + "gid_attrs/types/1", "RoCE v2");
  write(port(device) + "gid_attrs/ndevs/0", netdev);
  write(port(device) + "gid_attrs/ndevs/1", netdev);
  write(port(device) + "hw_counters/packet_seq_err", "7");
  write("sys/class/net/" + netdev + "/mtu", "9000");
  const std::string number = std::to_string(addresses.size());
  write("sys/class/infiniband_verbs/uverbs" + number + "/ibdev", device);
  write("dev/infiniband/uverbs" + number, "");
  addresses[device + ":1"] = "10.0." + number + ".1/24";
}

void PlantedHost::remove_cards() const {
  remove("sys/class/infiniband");
  remove("sys/bus/pci");
}

void PlantedHost::plant_gpu() const {
  const std::string gpu = function("0000:41:00.0");
  write(gpu + "class", "0x030200");
  write(gpu + "vendor", "0x10de");
  link("sys/bus/pci/devices/0000:41:00.0", "../../../../" + gpu);
}

HostFacts PlantedHost::facts() const {
  HostFacts facts;
  facts.host = "spark1";
  read_files(Tree(root()), environment, facts);
  facts.plugin = "Mesh (ncclNet v12)";
  const auto has = [](const std::vector<std::string>& ports, const std::string& name) {
    return std::find(ports.begin(), ports.end(), name) != ports.end();
  };
  for (const PortFacts& port : facts.ports) {
    if (has(unseen, port.name)) continue;
    if (port.state != "ACTIVE" || has(no_rails, port.name)) {
      facts.refused.push_back(
          {.port = port.name, .kind = RefusalKind::Unusable, .reason = "is not usable"});
      continue;
    }
    RailFacts rail;
    rail.index = static_cast<int>(facts.rails.size());
    rail.name = port.name;
    rail.mtu = rail_mtu;
    rail.pointers = pointers;
    rail.addresses.push_back({.text = addresses.at(port.name), .gid_index = 1});
    facts.rails.push_back(rail);
  }
  return facts;
}

std::vector<std::string> names_of(const std::vector<Finding>& findings) {
  std::vector<std::string> names;
  names.reserve(findings.size());
  for (const Finding& each : findings) names.push_back(each.name);
  return names;
}

}  // namespace mesh::doctor
