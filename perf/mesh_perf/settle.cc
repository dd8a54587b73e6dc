#include "perf/driver/command_line.h"
#include "perf/driver/net_api.h"
#include "perf/driver/own_process.h"
#include "perf/driver/soft_fabric.h"
#include "perf/mesh_perf/options.h"
#include "src/base/config.h"

#include <cstdio>

namespace mesh::perf {
namespace {

constexpr std::string_view kSoft = "soft:";

// Chooses the fabric, or returns a mistake. A rank that our launcher did not start uses the fabric
// that its environment names, and --fabric may only name that one.
std::string choose_fabric(const Environment& environment, Options& options) {
  const std::string setting = driver::variable(environment, "NCCL_MESH_FABRIC");
  const std::string chosen = setting.starts_with(kSoft) ? setting.substr(kSoft.size()) : "rdma";
  if (options.is_rank() && !options.launched) {
    if (!options.fabric.empty() && options.fabric != chosen) {
      return "--fabric is " + options.fabric + ", but this rank runs over " + chosen +
             ", as NCCL_MESH_FABRIC (rdma or soft:FILE) says";
    }
    options.fabric = chosen;
  }
  if (options.fabric.empty()) options.fabric = driver::own_fabric_file("triangle.json");
  if (options.is_rank() || options.soft()) return {};
  return "start the ranks on RDMA devices one per host, with MESH_RENDEZVOUS=HOST0:29500 RANK=0 "
         "WORLD_SIZE=2 mesh_perf ..., or with mpirun or srun";
}

// Takes the number of ranks of this host from what has started them. Returns a mistake in it.
std::string settle_ranks_per_host(Options& options) {
  const driver::World& world = options.world;
  if (!options.is_rank()) return {};
  const int told = world.local_size;
  if (!options.ranks_per_host_given) options.ranks_per_host = told > 0 ? told : 1;
  const std::string given = "--ranks-per-host is " + std::to_string(options.ranks_per_host);
  if (told > 0 && options.ranks_per_host != told)
    return given + ", but the launcher says " + std::to_string(told);
  if (!options.ranks_per_host_given || world.size % options.ranks_per_host == 0) return {};
  return given + ", but the world size is " + std::to_string(world.size) + ", no multiple of it";
}

std::string check_via(const Options& options) {
  if (options.via.empty()) return {};
  if (options.ranks_per_host != 1) return "--via needs one rank per host";
  const bool pair = options.kind == Kind::Latency || options.kind == Kind::SendRecv;
  if (pair && options.soft() && options.hosts.size() == 2) return {};
  return "--via needs latency or sendrecv on the software fabric, between two --hosts";
}

std::string check_algorithm(const Options& options) {
  if (!options.compares) return {};
  if (options.kind != Kind::AllReduce) return "--algorithm needs all_reduce";
  if (options.channels != 1) return "--algorithm needs one channel";
  if (options.algorithm == Algorithm::Ring || options.memory == driver::MemoryKind::Host) return {};
  return "--algorithm oneshot needs host memory, which the CPU reduces";
}

// The library has a CollNet only if the environment asks for it when the symbol is looked up. The
// value is a bound for NCCL's choice; here every size goes in one exchange.
void ask_for_one_shot() {
  constexpr const char* kSetting = "NCCL_MESH_ONESHOT_BYTES";
  if (driver::variable(process_environment(), kSetting).empty())
    driver::set_variable(kSetting, "64K");
}

// Returns the mistake; empty if there is none.
std::string find_place(Options& options) {
  const Environment environment = process_environment();
  std::string why;
  auto world = driver::find_world(options.world, environment, why);
  if (!world.ok()) return why;
  options.world = std::move(*world);
  why = settle_ranks_per_host(options);
  if (why.empty()) why = choose_fabric(environment, options);
  return why.empty() ? check_via(options) : why;
}

// Returns how many ranks run the collective; 0, after a line on stderr, if the fabric file is not
// usable.
int ranks_of(const Options& options) {
  if (options.is_rank()) return options.world.size - static_cast<int>(options.via.size());
  const auto fabric =
      driver::SoftFabric::open(options.fabric, options.hosts, options.ranks_per_host);
  return fabric.ok() ? static_cast<int>(fabric->hosts().size()) : 0;
}

std::string check_sizes(const Options& options) {
  if (options.bytes_max >= options.bytes_min) return {};
  return "--maxbytes " + std::to_string(options.bytes_max) + " is below --minbytes " +
         std::to_string(options.bytes_min);
}

}  // namespace

bool settle(Options& options) {
  std::string why = check_sizes(options);
  if (why.empty()) why = find_place(options);
  if (why.empty()) why = check_algorithm(options);
  if (options.algorithm == Algorithm::OneShot) ask_for_one_shot();
  if (why.empty() && options.world.rank <= 0) why = driver::unwritable(options.json_file);
  // A setting that no rank could use is refused once, not by every rank.
  bool usable = true;
  const std::string warning = driver::first_warning(
      [&] { usable = options.is_rank() || load_settings(process_environment()).ok(); });
  if (why.empty() && !usable) why = warning;
  if (why.empty()) {
    const int ranks = ranks_of(options);
    if (ranks == 0) return false;
    why = mistake_in(options.collective(), ranks, options.channels);
  }
  if (why.empty() && !options.is_rank())
    why = driver::unusable_plugin(options.plugin, options.net_version);
  if (!why.empty()) std::fprintf(stderr, "mesh_perf: %s\n", why.c_str());
  return why.empty();
}

}  // namespace mesh::perf
