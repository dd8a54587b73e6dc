#include "engine/link/misfit_lines.h"

#include "src/topo/pairing.h"
#include "src/verbs/gid_choice.h"

#include <fmt/format.h>

#include <algorithm>

namespace mesh::engine {

namespace {
MisfitLine line_of(const Hello& hello, const OwnRails& own, const std::string& name,
                   const topo::MisfitPair& misfit) {
  const WireRail &theirs = hello.rails[misfit.pair.local], &ours = own.rails[misfit.pair.peer];
  const std::string to = address_text(theirs.addresses[misfit.pair.local_address]);
  const std::string from = address_text(ours.addresses[misfit.pair.peer_address]);
  const auto type = [](const WireRail& rail) {
    return verbs::gid_type_name(verbs::GidType{rail.gid_type});
  };
  MisfitLine line{.theirs = misfit.pair.local, .ours = misfit.pair.peer};
  switch (misfit.why) {
    case topo::Misfit::Packets:
      line.what = fmt::format(
          "rail {} of host {} sends {} ({}) and rail {} of host {} {} ({}), which do not "
          "understand each other",
          theirs.name, hello.host, type(theirs), to, ours.name, name, type(ours), from);
      line.remedy = "set NCCL_IB_ROCE_VERSION_NUM alike, or unset NCCL_IB_GID_INDEX";
      break;
    case topo::Misfit::Partitions:
      line.what = fmt::format(
          "rail {} of host {} has the partition key 0x{:04x} and rail {} of host {} 0x{:04x}, so "
          "no packet passes",
          theirs.name, hello.host, theirs.partition, ours.name, name, ours.partition);
      line.remedy = "set NCCL_IB_PKEY_VALUE to a partition of both ports";
      break;
    case topo::Misfit::EqualAddresses:
      line.what = fmt::format("rail {} of host {} and rail {} of host {} have one address, {}",
                              theirs.name, hello.host, ours.name, name, to);
      line.remedy = "if a cable joins them, give each of its ends an address of its own";
      break;
  }
  return line;
}
}  // namespace

std::vector<MisfitLine> misfit_lines(const Hello& hello, const OwnRails& own,
                                     const PathChoice& choice, const std::string& name) {
  // One cable joins two sockets whose other halves meet.
  const auto on_one_cable = [&](const topo::RailPair& pair) {
    return std::any_of(choice.meet.begin(), choice.meet.end(), [&](const WirePath& path) {
      return same_cable(hello.rails, path.connector_rail, pair.local) &&
             same_cable(own.rails, path.acceptor_rail, pair.peer);
    });
  };
  std::vector<topo::RailPair> paired;
  for (const WirePath& path : choice.meet)
    paired.push_back({.local = path.connector_rail, .peer = path.acceptor_rail});
  std::vector<MisfitLine> lines;
  const PairingEnds ends = pairing_ends(hello, own);
  for (const topo::MisfitPair& each : topo::misfits(ends.theirs, ends.ours, paired, ends.sides)) {
    if (lines.size() == kMisfitLinesMax) break;
    MisfitLine& line = lines.emplace_back(line_of(hello, own, name, each));
    line.sure = each.why != topo::Misfit::EqualAddresses || on_one_cable(each.pair);
  }
  return lines;
}

namespace {
constexpr std::string_view kCannotMeet = " share a subnet and cannot meet: ";
}  // namespace

std::string no_path_for_misfit(const std::string& hosts, const MisfitLine& line) {
  return fmt::format("{}: hosts {}{}{}", line.remedy, hosts, kCannotMeet, line.what);
}

bool tells_misfit(std::string_view why) { return why.find(kCannotMeet) != std::string_view::npos; }

}  // namespace mesh::engine
