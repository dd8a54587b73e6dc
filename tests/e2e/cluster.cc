#include "tests/e2e/cluster.h"

#include "perf/driver/stream.h"
#include "tests/e2e/pace.h"
#include "tests/prelude.h"

#include <charconv>

namespace mesh::e2e {
namespace {

// Ranks start at different times: a launcher that is slow, a machine that still boots.
constexpr std::chrono::minutes kStartTime{10};
// Between two steps a parent only judges; this time is for the network and a loaded machine.
constexpr std::chrono::seconds kStepTime{120};
// Bounds of the last output of one rank, and of all ranks together, in an exchange.
constexpr std::size_t kOutputBytesMax = std::size_t{256} << 10;
constexpr std::size_t kOutputsBytesMax = std::size_t{8} << 20;

std::string tail(const std::string& text, std::size_t bytes_max) {
  if (text.size() <= bytes_max) return text;
  return std::to_string(text.size() - bytes_max) + " bytes are left out here\n" +
         text.substr(text.size() - bytes_max);
}

std::string pack(const RankEnd& end, std::size_t output_bytes_max) {
  std::string head;
  for (const int value :
       {static_cast<int>(end.finished), static_cast<int>(end.end.exited), end.end.code}) {
    head += std::to_string(value);
    head += ' ';
  }
  return head + '\n' + tail(end.output, output_bytes_max);
}

RankEnd unpack(const std::string& text) {
  RankEnd end;
  std::istringstream head(text);
  head >> end.finished >> end.end.exited >> end.end.code;
  const std::size_t line = text.find('\n');
  if (line != std::string::npos) end.output = text.substr(line + 1);
  return end;
}

std::string current_test() {
  const testing::TestInfo* test = testing::UnitTest::GetInstance()->current_test_info();
  return test == nullptr ? "no test" : std::string(test->test_suite_name()) + "." + test->name();
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

// Returns in words what must be equal on all hosts.
std::string charter() {
  const std::string program = driver::own_program();
  const std::string filter = GTEST_FLAG_GET(filter);
  return program.substr(program.rfind('/') + 1) + " with --gtest_filter=" + filter +
         ", MESH_TOPOLOGY=" + driver::variable(process_environment(), "MESH_TOPOLOGY") +
         ", MESH_LAB " + (emulated() ? "on" : "off") + ", " +
         std::to_string(testing::UnitTest::GetInstance()->total_test_count()) + " tests";
}

}  // namespace

std::unique_ptr<Cluster> Cluster::join(const driver::World& world) {
  std::string why;
  const auto size = static_cast<std::size_t>(world.size);
  auto shape =
      Shape::of_cluster(driver::variable(process_environment(), "MESH_TOPOLOGY"), size, why);
  if (!shape.ok()) {
    std::fprintf(stderr, "e2e: rank %d: %s\n", world.rank, why.c_str());
    return nullptr;
  }
  auto bootstrap =
      driver::Bootstrap::join({world.rank, world.size, world.rendezvous, -1, kStartTime});
  if (!bootstrap.ok()) {
    std::fprintf(stderr, "e2e: rank %d of %d: no rendezvous at %s: %s\n", world.rank, world.size,
                 world.rendezvous.c_str(), errc_name(bootstrap.code()));
    return nullptr;
  }
  std::unique_ptr<Cluster> cluster(new Cluster(std::move(*bootstrap), std::move(*shape)));
  return cluster->agree() ? std::move(cluster) : nullptr;
}

bool Cluster::agree() {
  const std::vector<std::string> charters = exchange(charter(), "the start");
  for (std::size_t other = 1; other < charters.size(); ++other) {
    if (charters[other] == charters[0]) continue;
    if (rank() == 0 || rank() == static_cast<int>(other)) {
      std::fprintf(stderr, "e2e: rank %d: rank 0 runs %s; rank %zu runs %s\n", rank(),
                   charters[0].c_str(), other, charters[other].c_str());
    }
    return false;
  }
  return true;
}

void Cluster::give_up(const std::string& why) {
  launcher_.reset();
  std::fflush(nullptr);
  std::fprintf(stderr, "e2e: rank %d: %s\n", rank(), why.c_str());
  ::_exit(1);
}

std::vector<std::string> Cluster::exchange(const std::string& blob, const std::string& during) {
  auto all = bootstrap_.all_gather(blob);
  if (all.ok()) return std::move(*all);
  give_up("lost the parent on rank " + std::to_string(bootstrap_.lost()) + " during " + during +
          " (" + errc_name(all.code()) + "); the tests end here");
}

// Agrees on where the processes of the next scenario meet; the parent of their rank 0 tells it.
Cluster::Meeting Cluster::meet(const std::string& step, bool first) {
  Meeting meeting;
  SocketAddress address = bootstrap_.local_address();
  const std::uint32_t scope = address.scope_id;
  std::string place;
  if (first) {
    auto socket = driver::listen_at(address.text_with_port(0));
    const auto port = socket.ok() ? local_port(socket->get()) : Result<std::uint16_t>(Errc::System);
    if (!port.ok())
      give_up("cannot listen on " + address.text() + " for the processes of a scenario");
    meeting.socket = std::move(*socket);
    address.scope_id = 0;  // our scope means nothing elsewhere
    place = address.text() + ' ' + std::to_string(*port);
  }
  bootstrap_.set_timeout(scaled(kStepTime));
  const std::vector<std::string> said = exchange(step + '\n' + place, step);
  for (std::size_t other = 0; other < said.size(); ++other) {
    if (first_line(said[other]) != step)
      give_up("is at " + step + ", rank " + std::to_string(other) + " at " +
              first_line(said[other]));
    if (said[other].size() > step.size() + 1) place = said[other].substr(step.size() + 1);
  }
  const std::size_t space = place.find(' ');
  auto where = SocketAddress::from_text(place.substr(0, space));
  std::uint16_t port = 0;
  if (space != std::string::npos)
    std::from_chars(place.data() + space + 1, place.data() + place.size(), port);
  if (!where.ok() || port == 0) give_up("nobody says where " + step + " meets");
  if (where->link_local()) where->scope_id = scope;
  meeting.address = where->text_with_port(port);
  return meeting;
}

RankEnd Cluster::run_child(const std::vector<std::string>& arguments, const RunOptions& options,
                           int listening_fd) {
  driver::ProcessSpec spec;
  spec.arguments = arguments;
  spec.environment = options.environment;
  spec.inherited_fd = listening_fd;
  spec.capture = true;
  const auto watch = bootstrap_.watch();
  const auto child = launcher_->start(spec);
  if (!watch.ok() || !child.ok())
    return {{.exited = true, .code = 127}, true, "it could not be started\n"};
  // A lost parent ends the wait; the exchange that follows says which one it was.
  launcher_->wait({.timeout = scaled(options.timeout), .signal_fd = watch->get()});
  return {launcher_->end(*child), !launcher_->running(*child), launcher_->output(*child)};
}

std::vector<RankEnd> Cluster::run(const Scenario& scenario, const RunOptions& options,
                                  const std::vector<std::size_t>& ranks) {
  const std::string step =
      "step " + std::to_string(++steps_) + " (" + current_test() + ", " + scenario.name + ")";
  const auto mine = std::find(ranks.begin(), ranks.end(), static_cast<std::size_t>(rank()));
  Meeting meeting = meet(step, mine == ranks.begin());
  launcher_.emplace();
  RankEnd own;
  if (mine != ranks.end()) {
    const std::string place = std::to_string(mine - ranks.begin());
    const std::string listening = std::to_string(meeting.socket.get());
    own = run_child({driver::own_program(), kRankFlag, scenario.name, place,
                     std::to_string(ranks.size()), meeting.address, listening, options.argument},
                    options, meeting.socket.get());
  }
  bootstrap_.set_timeout(scaled(options.timeout + kStepTime));
  const std::size_t room =
      std::min(kOutputBytesMax, kOutputsBytesMax / static_cast<std::size_t>(bootstrap_.world()));
  const std::vector<std::string> all = exchange(pack(own, room), step);
  launcher_.reset();
  std::vector<RankEnd> ends;
  ends.reserve(ranks.size());
  for (const std::size_t each : ranks) ends.push_back(unpack(all[each]));
  return ends;
}

int Cluster::finish(int own) {
  bootstrap_.set_timeout(scaled(kStepTime));
  int worst = own;
  for (const std::string& code : exchange(std::to_string(own), "the end"))
    worst = std::max(worst, std::atoi(code.c_str()));
  return worst;
}

}  // namespace mesh::e2e
