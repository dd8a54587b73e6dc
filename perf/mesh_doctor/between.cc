#include "perf/mesh_doctor/between.h"

#include "perf/driver/net_api.h"
#include "perf/mesh_doctor/cable_finder.h"
#include "perf/mesh_doctor/map.h"
#include "perf/mesh_doctor/measure_cables.h"
#include "perf/mesh_doctor/own_rails.h"
#include "perf/mesh_doctor/rank_order.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cstdio>
#include <fstream>

namespace mesh::doctor {
namespace {

std::vector<std::string> names_of(const std::vector<HostRails>& hosts) {
  std::vector<std::string> names;
  names.reserve(hosts.size());
  for (const HostRails& each : hosts) names.push_back(each.host);
  return names;
}

void append(std::vector<Finding>& all, std::vector<Finding> more) {
  for (Finding& each : more) all.push_back(std::move(each));
}

class Look {
 public:
  Look(driver::Bootstrap& bootstrap, const Options& options)
      : bootstrap_(bootstrap), options_(options) {}

  BetweenHosts run(const HostFacts& facts);

 private:
  bool agree();
  bool gather_rails(const OwnRails& own);
  bool gather_meetings(const OwnRails& own);
  bool look_at_network();
  bool measure(driver::NetApi* api);
  void judge_all();
  void judge_expected();
  void draw();
  void write(const std::string& file, const std::string& text);
  BetweenHosts lost();

  driver::Bootstrap& bootstrap_;
  Options options_;
  bool one_machine_ = false;
  Cabling cabling_;
  Proofs proofs_;
  std::vector<Measured> measured_;
  std::vector<std::string> addresses_;
  BetweenHosts result_;
};

bool Look::gather_rails(const OwnRails& own) {
  const auto texts = bootstrap_.all_gather(to_text(own.rails()));
  if (!texts.ok()) return false;
  for (const std::string& text : *texts) {
    auto rails = rails_from(text);
    if (!rails.ok()) return false;
    one_machine_ = one_machine_ || rails->soft;
    cabling_.hosts.push_back(std::move(*rails));
  }
  tell_apart(cabling_.hosts);
  return true;
}

// Takes rank 0's options, because the other hosts would wait in vain for one that measures longer.
bool Look::agree() {
  const auto texts = bootstrap_.all_gather(
      fmt::format("{} {} {}", options_.threshold, options_.quick ? 1 : 0, options_.patience_s));
  if (!texts.ok()) return false;
  std::istringstream first(texts->front());
  first >> options_.threshold >> options_.quick >> options_.patience_s;
  return !first.fail();
}

// Gathers all meetings. Each host, by its own routes and what datagrams have told it, answers for
// the hosts of lower ranks.
bool Look::gather_meetings(const OwnRails& own) {
  auto proofs = find_cables(bootstrap_, own.ends(), cabling_.hosts);
  if (!proofs.ok()) return false;
  proofs_ = std::move(*proofs);
  const auto rank = static_cast<std::size_t>(bootstrap_.rank());
  std::vector<Meeting> mine(rank);
  for (std::size_t i = 0; i < rank; ++i) {
    if (!are_cabled_elsewhere(proofs_, i, rank))
      mine[i] = own.meeting_with(cabling_.hosts[i], proofs_[rank][i]);
  }
  const auto texts = bootstrap_.all_gather(meetings_text(mine));
  if (!texts.ok()) return false;
  std::vector<std::vector<Meeting>> all;
  for (std::size_t host = 0; host < texts->size(); ++host) {
    auto of_host = meetings_from((*texts)[host], host);
    if (!of_host.ok()) return false;
    all.push_back(std::move(*of_host));
  }
  cabling_ = cabling_of(std::move(cabling_.hosts), all);
  return true;
}

bool Look::look_at_network() {
  HandshakeLook look = look_at_handshake(bootstrap_, names_of(cabling_.hosts));
  append(result_.findings, std::move(look.findings));
  addresses_ = std::move(look.addresses);
  return !look.lost;
}

bool Look::measure(driver::NetApi* api) {
  CableMeasurer measurer(bootstrap_, api,
                         {.threshold = options_.threshold,
                          .quick = options_.quick,
                          .patience = std::chrono::seconds(options_.patience_s),
                          .one_machine = one_machine_});
  const bool whole = measurer.run(cabling_);
  measured_ = measurer.measured();
  if (measurer.left_out() != 0) {
    result_.sections.push_back(
        fmt::format("{} measurements were left out, because there are too many cables.\n",
                    measurer.left_out()));
  }
  return whole;
}

void Look::judge_expected() {
  append(result_.findings,
         options_.expected.empty() ? lone_rails(cabling_) : compare(cabling_, options_.expected));
}

void Look::judge_all() {
  judge_expected();
  append(result_.findings, look_at_map(cabling_));
  append(result_.findings, shared_subnets(cabling_, proofs_));
  append(result_.findings, judge(cabling_, measured_, options_.threshold));
  OrderAdvice advice = advise_order(cabling_, measured_);
  if (advice.finding) result_.findings.push_back(std::move(*advice.finding));
  draw();
  if (!advice.note.empty()) result_.sections.push_back(advice.note);
}

void Look::write(const std::string& file, const std::string& text) {
  if (file.empty()) return;
  std::ofstream stream(file);
  stream << text;
  stream.close();
  if (stream) return;
  std::fprintf(stderr, "mesh_doctor: %s cannot be written\n", file.c_str());
  result_.written = false;
}

void Look::draw() {
  const MapView view{cabling_, measured_, result_.findings};
  result_.sections.push_back(map_section(view));
  if (!measured_.empty()) result_.sections.push_back(rates_section(view));
  std::string network = "Handshake network (NCCL_SOCKET_IFNAME)\n";
  for (std::size_t i = 0; i < addresses_.size(); ++i)
    network += fmt::format("  {}: {}\n", cabling_.hosts[i].host, addresses_[i]);
  result_.sections.push_back(std::move(network));
  write(options_.map_file, map_text(cabling_));
  write(options_.svg_file, map_svg(view));
  result_.json = nlohmann::ordered_json{{"cables", cables_json(view)}}.dump(
      -1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

BetweenHosts Look::lost() {
  const auto rank = static_cast<std::size_t>(std::max(bootstrap_.lost(), 0));
  const bool known = bootstrap_.lost() >= 0 && rank < cabling_.hosts.size();
  add_finding(result_.findings, "host-lost",
              known ? cabling_.hosts[rank].host : fmt::format("rank {}", bootstrap_.lost()),
              {"", "The host took part and does not answer any more.",
               "Check what mesh_doctor printed on that host, and whether the host still runs."});
  result_.whole = false;
  return std::move(result_);
}

BetweenHosts Look::run(const HostFacts& facts) {
  std::string error;
  const auto api = driver::NetApi::load(options_.plugin, driver::kNetVersionMax, error);
  {
    const OwnRails own = api != nullptr ? OwnRails::read(facts) : OwnRails::none(facts);
    if (!agree() || !gather_rails(own) || !gather_meetings(own)) return lost();
  }
  if (!look_at_network() || !measure(api.get())) return lost();
  if (bootstrap_.rank() == 0) judge_all();
  return std::move(result_);
}

}  // namespace

BetweenHosts look_between(driver::Bootstrap& bootstrap, const HostFacts& own,
                          const Options& options) {
  return Look(bootstrap, options).run(own);
}

}  // namespace mesh::doctor
