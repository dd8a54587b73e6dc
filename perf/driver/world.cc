#include "perf/driver/world.h"

#include "perf/driver/bootstrap.h"

#include <array>
#include <charconv>
#include <optional>

namespace mesh::driver {
namespace {

constexpr const char* kRendezvous = "MESH_RENDEZVOUS";
constexpr int kPortMax = 65535;

// The launchers that tell a process its rank, in the order in which they are believed.
struct Launcher {
  const char* rank;
  const char* size;
  const char* local_rank;
  const char* local_size;
};
constexpr auto kLaunchers = std::to_array<Launcher>({
    {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
    {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", ""},
});

std::optional<int> number(const std::string& text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string unusable(const std::string& name, const std::string& value, const std::string& wanted) {
  return name + ": '" + value + "' is not usable; wanted: " + wanted;
}

// Returns why the rendezvous cannot be used; empty if it can.
std::string rendezvous_mistake(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  const bool bracketed = text.starts_with('[');
  const bool whole = colon != std::string::npos && colon > 0 &&
                     (!bracketed || text[colon - 1] == ']') &&
                     (bracketed || text.find(':') == colon);
  const std::optional<int> port = whole ? number(text.substr(colon + 1)) : std::nullopt;
  if (port && *port >= 1 && *port <= kPortMax) return {};
  return unusable(
      kRendezvous, text,
      "host:port of rank 0, port 1..65535; an IPv6 address in brackets, [address]:port");
}

struct Texts {
  std::string rank, size;
};

// Returns what one launcher says. Flags replace the variables of the first launcher.
Texts said_by(const Launcher& launcher, const World& flags, const Environment& environment) {
  Texts texts{variable(environment, launcher.rank), variable(environment, launcher.size)};
  if (&launcher != &kLaunchers.front()) return texts;
  if (flags.rank >= 0) texts.rank = std::to_string(flags.rank);
  if (flags.size > 0) texts.size = std::to_string(flags.size);
  return texts;
}

std::string take(const Launcher& launcher, const Texts& texts, World& world) {
  if (texts.size.empty())
    return std::string(launcher.rank) + " is given, " + launcher.size + " is not";
  if (texts.rank.empty())
    return std::string(launcher.size) + " is given, " + launcher.rank + " is not";
  const int size = number(texts.size).value_or(0), rank = number(texts.rank).value_or(-1);
  if (size < 1 || size > static_cast<int>(kWorldMax))
    return unusable(launcher.size, texts.size, "1.." + std::to_string(kWorldMax));
  if (rank < 0 || rank >= size) {
    const std::string last = std::to_string(size - 1);
    return unusable(launcher.rank, texts.rank,
                    "0.." + last + " (" + launcher.size + " is " + texts.size + ")");
  }
  world.rank = rank;
  world.size = size;
  return {};
}

// Takes the place among the ranks of this host. A launcher may tell nothing of it.
std::string take_local(const Launcher& launcher, const Environment& environment, World& world) {
  const std::string size = variable(environment, launcher.local_size),
                    rank = variable(environment, launcher.local_rank);
  if (!size.empty()) world.local_size = number(size).value_or(0);
  if (!size.empty() && (world.local_size < 1 || world.local_size > world.size))
    return unusable(launcher.local_size, size, "1.." + std::to_string(world.size));
  const int most = world.local_size > 0 ? world.local_size : world.size;
  if (!rank.empty()) world.local_rank = number(rank).value_or(-1);
  if (world.local_rank < 0 || world.local_rank >= most)
    return unusable(launcher.local_rank, rank, "0.." + std::to_string(most - 1));
  return {};
}

}  // namespace

std::string variable(const Environment& environment, const std::string& name) {
  const auto found = environment.find(name);
  return found == environment.end() ? std::string() : found->second;
}

bool switched_on(const Environment& environment, const std::string& name) {
  const std::string value = variable(environment, name);
  return !value.empty() && value != "0";
}

Result<World> find_world(const World& flags, const Environment& environment, std::string& why) {
  World world;
  world.rendezvous =
      flags.rendezvous.empty() ? variable(environment, kRendezvous) : flags.rendezvous;
  if (world.rendezvous.empty() && (flags.rank >= 0 || flags.size > 0)) {
    why =
        "a rank or a world size is given without a rendezvous (--rendezvous or MESH_RENDEZVOUS: "
        "host:port of rank 0)";
    return Errc::InvalidArgument;
  }
  if (world.rendezvous.empty()) return world;
  why = rendezvous_mistake(world.rendezvous);
  if (!why.empty()) return Errc::InvalidArgument;
  for (const Launcher& launcher : kLaunchers) {
    const Texts texts = said_by(launcher, flags, environment);
    if (texts.rank.empty() && texts.size.empty()) continue;
    why = take(launcher, texts, world);
    if (why.empty()) why = take_local(launcher, environment, world);
    if (!why.empty()) return Errc::InvalidArgument;
    return world;
  }
  why =
      "a rendezvous is given without a rank: set RANK and WORLD_SIZE, or start the ranks with "
      "mpirun or srun";
  return Errc::InvalidArgument;
}

}  // namespace mesh::driver
