#include "engine/data/standby_memory.h"

#include "engine/data/peer_link.h"
#include "engine/data/progress_loop.h"
#include "engine/data/registration.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <span>
#include <utility>

namespace mesh::engine {

namespace {
// Returns each region once, with how often it was registered through the link.
std::map<Registration*, std::uint32_t> regions_of(const PeerLink& link) {
  std::map<Registration*, std::uint32_t> regions;
  link.channels().for_each([&regions](const Channel& channel) {
    for (const auto& [region, uses] : channel.regions) regions[region] += uses;
  });
  return regions;
}
}  // namespace

StandbyMemory::StandbyMemory(RegistrationTable& table, const PeerLink& link,
                             std::vector<std::uint32_t> rails)
    : table_(table), rails_(std::move(rails)) {
  const std::map<Registration*, std::uint32_t> regions = regions_of(link);
  held_.reserve(regions.size());
  for (const auto& [region, uses] : regions) {
    table_.hold(*region);
    held_.push_back({.region = region});
  }
}

StandbyMemory::StandbyMemory(std::unique_ptr<StandbyMemory> before, const PeerLink& link)
    : StandbyMemory(before->table_, link, before->rails_) {
  before_ = std::move(before);
}

StandbyMemory::~StandbyMemory() {
  for (const Held& each : held_) table_.leave(*each.region, std::span(rails_).first(each.on_rails));
}

std::uint64_t StandbyMemory::rails() const noexcept {
  std::uint64_t rails = 0;
  for (const std::uint32_t rail : rails_) rails |= std::uint64_t{1} << rail;
  return rails;
}

void StandbyMemory::drop_all() noexcept {
  for (const Held& each : held_) table_.drop(*each.region, std::span(rails_).first(each.on_rails));
  held_.clear();
}

Status StandbyMemory::register_all() {
  const Status status = prepare_all();
  complete_ = status.ok();
  before_.reset();
  if (!complete_) drop_all();
  return status;
}

Status StandbyMemory::prepare_all() {
  for (Held& each : held_) {
    for (; each.on_rails < rails_.size(); ++each.on_rails) {
      if (const Status status = table_.prepare(*each.region, rails_[each.on_rails]); !status.ok())
        return status;
    }
  }
  return {};
}

bool StandbyMemory::covers(const PeerLink& link) const {
  const std::map<Registration*, std::uint32_t> regions = regions_of(link);
  return std::all_of(regions.begin(), regions.end(), [this](const auto& each) {
    return std::all_of(rails_.begin(), rails_.end(),
                       [&](std::uint32_t rail) { return table_.is_on(*each.first, rail); });
  });
}

Status StandbyMemory::take_over(PeerLink& link) {
  const std::map<Registration*, std::uint32_t> regions = regions_of(link);
  std::vector<std::uint32_t> rails;  // without those that another path has brought meanwhile
  std::set_difference(rails_.begin(), rails_.end(), link.paths().rails().begin(),
                      link.paths().rails().end(), std::back_inserter(rails));
  std::vector<std::pair<Registration*, std::uint32_t>> done;
  done.reserve(regions.size() * rails.size());
  Status status;
  for (const auto& [region, uses] : regions) {
    for (const std::uint32_t rail : rails) {
      if (status.ok()) status = table_.use(*region, rail, uses);
      if (status.ok()) done.emplace_back(region, rail);
    }
  }
  if (status.ok()) {
    const ProgressLoop::Guard guard(link.loop());
    link.paths().add_rails(rails);
    return {};
  }
  for (const auto& [region, rail] : done) table_.retract(*region, rail, regions.at(region));
  return status;
}

}  // namespace mesh::engine
