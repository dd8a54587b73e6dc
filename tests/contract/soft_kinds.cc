// The software fabric under contract, in each of its ways to copy bytes.

#include "tests/contract/kinds.h"

#include "tests/contract/endpoint_pair.h"
#include "tests/unit/soft/open_host.h"

namespace mesh::contract {
namespace {

constexpr const char* kPair = R"({"name": "pair",
  "hosts": [{"name": "a", "nics": [{"name": "mesh0", "address": "10.0.12.1/24",
                                    "device_memory": "both"}]},
            {"name": "b", "nics": [{"name": "mesh0", "address": "10.0.12.2/24",
                                    "device_memory": "both"}]}],
  "links": [{"ends": ["a/mesh0", "b/mesh0"]}]})";
constexpr const char* kShapedPair = R"({"name": "shaped",
  "hosts": [{"name": "a", "nics": [{"name": "mesh0", "address": "fd00::1/64"}]},
            {"name": "b", "nics": [{"name": "mesh0", "address": "fd00::2/64"}]}],
  "links": [{"ends": ["a/mesh0", "b/mesh0"], "gbps": 200, "delay_us": 3, "mtu": 1024,
     "qp_gbps": 100}]})";

constexpr const char* kRoutedPair = R"({"name": "routed",
  "hosts": [{"name": "a", "nics": [{"name": "mesh0", "address": "10.1.0.1/31"}]},
            {"name": "b", "nics": [{"name": "mesh0", "address": "10.2.0.1/32"}]}],
  "routers": ["router"],
  "links": [{"ends": ["a/mesh0", "router"]}, {"ends": ["router", "b/mesh0"]}]})";
constexpr const char* kInfiniBandPair = R"({"name": "infiniband",
  "hosts": [{"name": "a", "nics": [{"name": "mesh0", "layer": "infiniband",
                                    "address": "fec0:0:0:1::1/64", "global_header": true}]},
            {"name": "b", "nics": [{"name": "mesh0", "layer": "infiniband",
                                    "address": "fec0:0:0:2::1/64", "global_header": true}]}],
  "routers": ["router"],
  "links": [{"ends": ["a/mesh0", "router"]}, {"ends": ["router", "b/mesh0"]}]})";

// Parsed once: another parse of the text, or a parse in another process, makes another fabric.
const soft::FabricFile& pair_fabric() {
  static const soft::FabricFile fabric = *soft::parse(kPair);
  return fabric;
}
const soft::FabricFile& shaped_fabric() {
  static const soft::FabricFile fabric = *soft::parse(kShapedPair);
  return fabric;
}

const soft::FabricFile& routed_fabric() {
  static const soft::FabricFile fabric = *soft::parse(kRoutedPair);
  return fabric;
}
const soft::FabricFile& infiniband_fabric() {
  static const soft::FabricFile fabric = *soft::parse(kInfiniBandPair);
  return fabric;
}

soft::SoftOptions options_for(const soft::FabricFile& fabric, const std::string& host) {
  soft::SoftOptions options;
  options.fabric = fabric;
  options.host = host;
  return options;
}

Host open_host(soft::SoftOptions options) {
  return {mesh::testkit::open_host(std::move(options)), "mesh0"};
}

const char* host_of(Side side) { return side == Side::Left ? "a" : "b"; }

template <soft::CopyMode kCopy, soft::Agent kAgent>
Host open_pair(Side side) {
  soft::SoftOptions options = options_for(pair_fabric(), host_of(side));
  options.copy = kCopy;
  options.agent = kAgent;
  return open_host(std::move(options));
}

// Both sides are processes of one host.
Host open_sibling(Side) { return open_pair<soft::CopyMode::Auto, soft::Agent::Thread>(Side::Left); }

template <const soft::FabricFile& (*kFabric)()>
Host open_on(Side side) {
  soft::SoftOptions options = options_for(kFabric(), host_of(side));
  options.agent = soft::Agent::None;
  return open_host(std::move(options));
}

soft::SoftProvider& soft_of(const Host& host) {
  return static_cast<soft::SoftProvider&>(*host.provider);
}

bool set_soft_port(const Host& host, const std::string&, PortState state) {
  const soft::Fault down{.kind = soft::FaultKind::PortDown, .nic = host.device};
  if (state == PortState::Down) return soft_of(host).faults().arm(down).ok();
  soft_of(host).faults().lift(down);
  return true;
}

bool fail_queue_pairs(const Host& host) {
  return soft_of(host).fail_queue_pairs(host.device, -1) > 0;
}

Traits soft_traits() {
  Traits traits;
  traits.needs_its_process = true;  // the NIC is a thread of the process
  traits.sees_protection = false;   // a check would have to read all mappings of the process
  return traits;
}

ProviderKind soft_kind(const char* name, Host (*open)(Side side)) {
  return {name, open, soft_traits(), set_soft_port, fail_queue_pairs};
}

// Makes a kind on the fabric `kPair`, whose NICs accept device memory.
ProviderKind pair_kind(const char* name, Host (*open)(Side side)) {
  ProviderKind kind = soft_kind(name, open);
  kind.traits.device_memory = true;
  return kind;
}

}  // namespace

Result<std::unique_ptr<soft::SoftProvider>> open_soft(const std::string& host) {
  return soft::SoftProvider::open(options_for(pair_fabric(), host));
}

std::vector<ProviderKind> soft_kinds() {
  ProviderKind infiniband = soft_kind("SoftInfiniBand", open_on<infiniband_fabric>);
  infiniband.traits.resolves_addresses = false;
  return {pair_kind("SoftMemory", open_pair<soft::CopyMode::Auto, soft::Agent::None>),
          pair_kind("SoftCells", open_pair<soft::CopyMode::Cells, soft::Agent::None>),
          pair_kind("SoftAgent", open_pair<soft::CopyMode::Auto, soft::Agent::Thread>),
          soft_kind("SoftShaped", open_on<shaped_fabric>),
          soft_kind("SoftRouted", open_on<routed_fabric>),
          infiniband};
}

std::vector<ProviderKind> soft_process_kinds() {
  static_cast<void>(pair_fabric());  // before the test forks
  return {pair_kind("SoftCma", open_pair<soft::CopyMode::Cma, soft::Agent::Thread>),
          pair_kind("SoftCells", open_pair<soft::CopyMode::Cells, soft::Agent::Thread>),
          pair_kind("SoftSiblings", open_sibling)};
}

}  // namespace mesh::contract
