#include "perf/mesh_doctor/own_rails.h"

#include "engine/link/cable_message.h"
#include "engine/link/link_setup.h"
#include "plugin/provider.h"
#include "src/base/config.h"
#include "src/base/log.h"
#include "src/base/random.h"
#include "src/soft/fabric_file.h"

#include <algorithm>

namespace mesh::doctor {
namespace {

constexpr std::string_view kSoft = "soft:";
// The share of a PCIe link's rate that packets of 128 bytes of data leave for data.
constexpr double kPcieShare = 0.85;
constexpr double kLineCodeFromGts = 8;  // from PCIe 3.0 on, 128 bits take 130

double link_gbps(const PcieFacts& link) {
  if (link.width <= 0 || link.gts <= 0) return 0;
  const double code = link.gts >= kLineCodeFromGts ? 128.0 / 130 : 0.8;
  return link.gts * link.width * code * kPcieShare;
}

double bus_gbps(const HostFacts& facts, const std::string& rail) {
  const auto named = std::find_if(facts.rails.begin(), facts.rails.end(),
                                  [&](const RailFacts& each) { return each.name == rail; });
  if (named == facts.rails.end() || named->pci.empty()) return 0;
  const auto link = std::find_if(facts.pcie.begin(), facts.pcie.end(),
                                 [&](const PcieFacts& each) { return each.pci == named->pci; });
  return link == facts.pcie.end() ? 0 : link_gbps(*link);
}

// A link of the fabric file without a rate is as fast as memory. With a rate above this one nothing
// can be expected either, because memory may be slower.
constexpr double kSoftGbpsMax = 10;

bool has_rate(const soft::FabricFile& fabric, const std::string& host, const verbs::Rail& rail) {
  soft::NicRef nic;
  if (!fabric.find_nic(host, rail.info.device, &nic)) return false;
  const int link = fabric.nic(nic).link;
  if (link < 0) return false;
  const double gbps = fabric.links[static_cast<std::size_t>(link)].gbps;
  return gbps > 0 && gbps <= kSoftGbpsMax;
}

}  // namespace

OwnRails OwnRails::none(const HostFacts& facts) {
  OwnRails own;
  own.rails_.host = facts.host;
  return own;
}

OwnRails OwnRails::read(const HostFacts& facts) {
  OwnRails own = none(facts);
  if (facts.plugin.empty() && !facts.silent.empty()) return own;  // no card answers
  set_log_level(LogLevel::None);                                  // the plugin logs the same lines
  const Result<Settings> settings = load_settings();
  if (!settings.ok()) return own;
  own.rails_.soft = settings->fabric.starts_with(kSoft);
  own.rails_.site = settings->site;
  auto provider = plugin::open_provider(*settings);
  if (!provider.ok()) return own;
  own.provider_ = std::move(*provider);
  auto found = verbs::discover(*own.provider_, *settings);
  if (!found.ok()) return own;
  own.found_ = std::move(*found);
  own.rails_.host_id = own.provider_->host_id();
  own.rails_.rails = engine::describe_rails(*own.provider_, own.found_);
  own.note_paces(facts, *settings);
  own.open_ends();
  return own;
}

void OwnRails::open_ends() {
  rails_.nonce = random_id();
  for (const verbs::Rail& rail : found_) {
    auto& end = ends_.emplace_back();
    if (rail.ethernet)
      end = provider_->open_datagrams(rail.context.get(), rail.gids.front(),
                                      verbs::DatagramEnd::Port);
    rails_.places.push_back(end == nullptr ? engine::WirePlace{}
                                           : engine::wire_place_of(end->place()));
  }
}

void OwnRails::note_paces(const HostFacts& facts, const Settings& settings) {
  const auto fabric = rails_.soft ? soft::load(settings.fabric.substr(kSoft.size()))
                                  : Result<soft::FabricFile>(Errc::NotFound);
  for (const verbs::Rail& rail : found_) {
    RailPace& pace = rails_.paces.emplace_back();
    pace.bus_gbps = bus_gbps(facts, rail.info.name);
    if (rails_.soft) pace.known = fabric.ok() && has_rate(*fabric, provider_->host_name(), rail);
  }
}

Meeting OwnRails::meeting_with(const HostRails& connector, const topo::CableProof& proof) const {
  const auto ask = [this](std::size_t rail, std::size_t address, const engine::WireAddress& to) {
    return provider_->route(found_[rail].gids[address], engine::gid_of(to));
  };
  return meeting_of(connector, rails_, ask, &proof);
}

}  // namespace mesh::doctor
