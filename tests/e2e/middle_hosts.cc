#include "tests/e2e/middle_hosts.h"

#include "perf/driver/plugin_log.h"
#include "perf/driver/world.h"
#include "tests/e2e/line.h"

#include <nlohmann/json.hpp>

namespace mesh::e2e {
namespace {

using Json = nlohmann::json;

constexpr const char* kMiddleFlag = "--middle";
constexpr const char* kMiddleVariable = "MESH_E2E_MIDDLE";
constexpr int kMiddleMax = 2;
constexpr std::uint64_t kNeighboursId = std::uint64_t{1} << 40;  // no scenario uses it

// Returns an address of a cable's piece, in a subnet that the fabric itself does not use.
std::string address(std::size_t cable, int piece, int end) {
  return "10." + std::to_string(200 + piece) + "." + std::to_string(cable) + "." +
         std::to_string(end) + "/24";
}

// Returns an address in the subnet of another one: "10.0.12.100/24" for "10.0.12.1/24".
std::string beside(const std::string& own) { return own.substr(0, own.rfind('.')) + ".100/24"; }

Json* nic_of(Json& host, const std::string& end) {
  for (Json& nic : host["nics"]) {
    if (host.value("name", "") + "/" + nic.value("name", "") == end) return &nic;
  }
  return nullptr;
}

// Cuts one cable of the fabric in pieces. Returns false if it is none between the two hosts.
bool cut_in_pieces(Json& hosts, const Json& link, std::size_t number, Json& pieces) {
  const Json ends = link.value("ends", Json::array());
  if (ends.size() != 2) return false;
  Json *const near = nic_of(hosts[0], ends[0]), *const far = nic_of(hosts[1], ends[1]);
  if (near == nullptr || far == nullptr) return false;
  const std::string own = near->value("address", "");
  if (!own.ends_with("/24") || own.find(':') != std::string::npos) return false;
  const std::string suffix = std::to_string(number);
  const std::size_t count = hosts.size() - 2;
  std::string from = ends[0];
  for (std::size_t i = 0; i <= count; ++i) {
    const int piece = static_cast<int>(i);
    std::string to = ends[1];
    if (i < count) {
      Json& host = hosts[2 + i];
      const std::string name = host["name"];
      to = name + "/near" + suffix;
      host["nics"].push_back({{"name", "near" + suffix},
                              {"address", i == 0 ? beside(own) : address(number, piece, 2)}});
      host["nics"].push_back(
          {{"name", "far" + suffix}, {"address", address(number, piece + 1, 1)}});
    } else {
      (*far)["address"] = address(number, piece, 2);
    }
    Json cable = link;
    cable["ends"] = {from, to};
    pieces.push_back(cable);
    if (i < count) from = to.substr(0, to.find('/')) + "/far" + suffix;
  }
  return true;
}

// Places are counted along the line: rank 0, the hosts between, rank 1.
int rank_at(int place, int count) { return place == 0 ? 0 : place == count + 1 ? 1 : place + 1; }
int place_of(int rank, int count) { return rank == 0 ? 0 : rank == 1 ? count + 1 : rank - 1; }

}  // namespace

bool take_middle_hosts(int& argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]) != kMiddleFlag) continue;
    const int count = i + 1 < argc ? std::atoi(argv[i + 1]) : 0;
    if (count < 1 || count > kMiddleMax) {
      std::fprintf(stderr, "e2e: %s wants a number in 1..%d\n", kMiddleFlag, kMiddleMax);
      return false;
    }
    ::setenv(kMiddleVariable, argv[i + 1], 1);
    for (int rest = i + 2; rest <= argc; ++rest) argv[rest - 2] = argv[rest];
    argc -= 2;
    return true;
  }
  return true;
}

int middle_hosts() {
  return std::atoi(driver::variable(process_environment(), kMiddleVariable).c_str());
}

std::string fabric_with_middle_hosts(const std::string& text, int count) {
  Json fabric = Json::parse(text, nullptr, false);
  if (!fabric.is_object() || fabric.value("hosts", Json::array()).size() != 2) return {};
  Json& hosts = fabric["hosts"];
  for (int i = 0; i < count; ++i)
    hosts.push_back({{"name", "between" + std::to_string(i + 1)}, {"nics", Json::array()}});
  Json pieces = Json::array();
  std::size_t number = 0;
  for (const Json& link : fabric.value("links", Json::array())) {
    if (!cut_in_pieces(hosts, link, ++number, pieces)) return {};
  }
  fabric["links"] = pieces;
  return pieces.empty() ? std::string() : fabric.dump();
}

std::optional<driver::Bootstrap> meet(driver::Bootstrap& all, const std::vector<int>& ranks) {
  driver::Rendezvous rendezvous;
  if (all.rank() == ranks.front()) {
    auto opened = driver::open_loopback_rendezvous();
    require(opened.ok(), "no rendezvous");
    rendezvous = std::move(*opened);
  }
  const auto addresses = all.all_gather(rendezvous.address);
  require(addresses.ok(), "an exchange was not reached by all");
  const auto own = std::find(ranks.begin(), ranks.end(), all.rank());
  if (own == ranks.end()) return std::nullopt;
  auto joined =
      driver::Bootstrap::join({.rank = static_cast<int>(own - ranks.begin()),
                               .world = static_cast<int>(ranks.size()),
                               .address = (*addresses)[static_cast<std::size_t>(ranks.front())],
                               .listening_fd = rendezvous.socket.release(),
                               .timeout = scaled(std::chrono::minutes(2))});
  require(joined.ok(), "a part of the ranks did not meet");
  return std::move(*joined);
}

MiddleHosts::MiddleHosts(Peer& everybody, int count)
    : everybody_(everybody),
      api_(everybody.load()),
      ends_(meet(everybody.bootstrap(), {0, 1})),
      communicator_(open_communicator(*api_, kNeighboursId)),
      connections_(std::make_unique<driver::ConnectionSet>(*communicator_)) {
  driver::ConnectionPlan plan;
  plan.timeout = patience();
  const int place = place_of(everybody.rank(), count);
  for (const int other : {place - 1, place + 1}) {
    if (other < 0 || other > count + 1) continue;
    plan.send_to.push_back(rank_at(other, count));
    plan.recv_from.push_back(rank_at(other, count));
  }
  require_success(connections_->connect(everybody.bootstrap(), plan), "connecting neighbours");
}

void MiddleHosts::finish() {
  everybody_.barrier();
  const driver::PluginLog& log = driver::PluginLog::instance();
  require(!ends_ || log.contains(" over host between") || log.contains(" over hosts between"),
          "nothing went over the hosts between");
  require_success(connections_->close(), "close");
  require_success(communicator_->close(), "finalize");
}

}  // namespace mesh::e2e
