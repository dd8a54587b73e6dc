#pragma once
// Everything that a seed decides before the run: hosts, cables, policy, channels with every
// message, endings, and the faults to come. A plain value; World carries it out.

#include <mesh/policy.h>

#include "plugin/oneshot/element.h"
#include "src/soft/fabric_file.h"
#include "tests/sim/control_network.h"

namespace mesh::sim {

inline constexpr std::uint64_t kUs = 1'000, kMs = 1'000'000, kSecond = 1'000'000'000;  // in ns

// Faults that the engine outlives: such a fault is no excuse for an error while it lasts no longer
// than the engine waits.
inline constexpr bool kPathsRecover = true;
inline constexpr bool kControlResumes = true;

inline constexpr std::uint64_t kHardCables = 3;  // cables between two hosts of a hard seed

// How much may go wrong; each level includes those before.
enum class Level : std::uint8_t {
  None,    // nothing does
  Slow,    // hosts are slow or stand still for a while, work requests and control frames are late
  Ends,    // channels and contexts end early, memory is taken back while in use
  Faults,  // queue pairs, ports and control connections fail, hosts die
};

struct Options {
  Level level = Level::Faults;
  std::size_t hosts = 0;  // 0: the seed's choice
  bool all_to_all = false;
  bool reorder = false;    // writes of one queue pair overtake one another in every seed
  bool device = false;     // receivers' memory is a GPU's in every seed
  bool groups = false;     // receives are started together in every seed
  bool late = false;       // bulk queue pairs are made late in every seed
  bool timed = false;      // the latency of paths is measured far more often
  bool standby = false;    // the named cable carries alone, and others stand by, in every seed
  bool relays = false;     // not every host is cabled to every other: see scenario_relays.cc
  bool both_ways = false;  // the hosts form rings, and neighbours' messages go both ways round
  bool outages = false;    // the control network is silent in every seed for up to two minutes
  // Control runs over the cables, and other threads run between any two steps of the control path.
  bool pessimistic = false;
  bool mute = false;        // a card hangs without a word, or hosts stand still, in every seed
  bool shapes = false;      // with relays: longer rings and tori, several cables, untidy ports
  bool strange = false;     // with relays: no host has a link with a neighbour beforehand
  bool one_shot = false;    // groups of one-shot all-reduce: see scenario_one_shot.cc
  bool shared = false;      // all cables are in one subnet, and ports are in any order
  bool recabled = false;    // with shared: cables move in mid job, see scenario_recabled.cc
  bool siblings = false;    // hosts have several processes: see scenario_siblings.cc
  bool any_fabric = false;  // nothing but the fabric decides: see scenario_any_fabric.cc
};

// The hosts that are cabled to one another.
enum class Cabling : std::uint8_t { All, Line3, Line4, Ring4, Star5, Ring5, Ring6, Torus6, Cube8 };

struct HostPlan {
  std::vector<std::string> nics;
  std::uint64_t slowness = 1;     // divides how often its turn comes
  bool relays = true;             // NCCL_MESH_RELAY
  int relay_mib = 512;            // NCCL_MESH_RELAY_BYTES
  std::uint64_t bring_up_ns = 0;  // what its devices take for queue pairs
};

struct ContextPlan {
  std::size_t host = 0, process = 0;  // of that host: see Scenario::processes
  // Closed with whatever is open once the world has received this many messages.
  std::uint64_t abort_at = UINT64_MAX;
  // It begins so long after that fault, or right before it; SIZE_MAX: with the world.
  std::size_t begins_with = SIZE_MAX;
  std::uint64_t begins_ns = 0;
  bool begins_before = false;
};

struct Message {
  std::uint64_t bytes = 0;
  std::uint64_t source = 0;  // offset in the channel's source
  std::uint32_t tag = 0;
};
struct Wanted {
  std::size_t message = 0;  // the send that it must meet
  std::uint64_t room = 0;
  std::uint32_t tag = 0;
};

enum class Ending : std::uint8_t {
  Orderly,
  SenderCloses,    // with requests open
  ReceiverCloses,  // with requests open
  SenderTakesBack,
  ReceiverTakesBack,
  NeverAccepted,  // the listener is closed while a peer may be connecting
};

// Whether cables or switches join the hosts of a channel, directly or over hosts between.
enum class Way : std::uint8_t {
  Exists,   // the channel must carry
  MayCome,  // it leads over a port that is down at first: the channel may carry or fail
  None,     // the channel must fail, and a line must name its peer
};

struct ChannelPlan {
  std::size_t from = 0, to = 0;  // contexts
  std::size_t after = SIZE_MAX;  // begins when that channel is over; SIZE_MAX: at once
  std::uint64_t source = 0, source_bytes = 0;
  std::vector<Message> sends;
  std::vector<Wanted> receives;  // in the order in which they are posted
  std::uint64_t sends_open = 1, receives_open = 1;
  std::uint64_t group_max = 1;  // receives that are started together, at most
  // After so many messages the sender waits until all are sent, and then rests; 0: it never rests.
  std::uint64_t burst = 0, rest_ns = 0;
  int device = -1, listens = -1;  // that NCCL names on either side; below 0: any
  std::uint64_t regions = 1;      // number of registrations of the receiver's memory
  Ending ending = Ending::Orderly;
  std::uint64_t ends_at = 0;      // after so many requests of the ending side
  bool ends_when_struck = false;  // instead of ends_at: once a fault has struck a path of its host
  std::uint64_t reregister_every = 0;  // messages; 0: never
  bool relayed = false;                // no cable joins its hosts
  Way way = Way::Exists;
  bool keeps = false;  // its sides stay open for the relayed channels: see Scenario::leaves_early
};

struct ReductionPlan {
  oneshot::Reduction reduction;
  std::size_t count = 0;  // elements
  bool in_place = false;
};

// A group of one-shot all-reduce. Ranks are SIZE_MAX for none.
struct GroupPlan {
  std::vector<std::size_t> contexts;  // by rank
  std::vector<ReductionPlan> work;
  std::size_t open = 1;        // outstanding all-reduces of a member, at most
  std::uint64_t contents = 0;  // the first of Random's streams that fill the inputs
  std::size_t aborts = SIZE_MAX, aborts_at = 0;  // leaves after so many, with those that are open
  std::size_t unwilling = SIZE_MAX;              // connects, and says that it cannot take part
  std::size_t unlike = SIZE_MAX;                 // has another setting
  std::size_t absent = SIZE_MAX;                 // does not connect
};

struct FaultPlan {
  enum class Kind : std::uint8_t {
    QueuePairError,
    PortDown,
    HostLost,
    HostUnplugged,
    HostPauses,
    ControlReset,
    ControlHalfOpen,
    HostExits,      // its process ends, whatever is open
    ControlOutage,  // no frame and no dial between the two hosts gets through for duration_ns
    Mute,           // a card completes nothing for duration_ns; 0: for ever
    CablesMove,     // the plugs of two NICs change places, whose ports are down for duration_ns
    CardReplaced,   // a card is gone, and after duration_ns another one is in its place
    QueueDies       // a completion queue of a card shows no completion any more
  };
  enum class FarEnd : std::uint8_t { Stays, PortDown, Replaced };
  Kind kind = Kind::QueuePairError;
  std::uint64_t at = 0;      // messages received in the whole world
  std::uint64_t gap_ns = 0;  // and at least so long after the fault before it
  std::size_t host = 0, other = 0;
  std::size_t process = SIZE_MAX;  // the only one of the host that it strikes; SIZE_MAX: all
  std::string nic, other_nic;      // other_nic: of CablesMove
  std::uint64_t duration_ns = 0;
  bool finalizes = true;           // of HostExits: closes its communicators before
  FarEnd far_end = FarEnd::Stays;  // of CardReplaced: what happens at the other end of the cable
  std::uint64_t far_duration_ns = 0;
  std::uint64_t after_work_requests = 0, work_requests = 1;
  std::uint64_t lasts_ns() const noexcept { return std::max(duration_ns, far_duration_ns); }
};

struct Scenario {
  std::uint64_t seed = 0;
  Options options;
  bool hard = false;  // see scenario_hard.cc
  Cabling cabling = Cabling::All;
  // Channels of neighbours stay only until the relayed channels carry, not until those are over.
  bool leaves_early = false;
  std::uint64_t both_ways_bytes = 0;  // TestHooks::both_ways_bytes, if the options ask for it
  std::uint64_t timed_ns = 0;         // TestHooks::timed_ns
  soft::FabricFile fabric;
  std::string fabric_text;  // of --any-fabric, for the reader
  TransferPolicy policy;
  int ack_timeout = 10, retries = 3;  // of queue pairs; a try takes 4.096 us * 2^ack_timeout
  int path_timeout_s = 30;            // how long the engine waits without any path
  ControlTiming control;
  bool control_over_cables = false;       // else over a network of its own
  std::uint64_t switches_one_in = 0;      // Guards after which other threads run; 0: none
  std::uint64_t device_works_one_in = 0;  // passes in which a device does what waits; 0: at once
  bool wedges = false;                    // a mute card takes no commands, for a minute at most
  std::uint64_t write_delay_ns = 0, reorder_ns = 0;  // of every host
  // Plain writes of one queue pair overtake one another by up to this time; 0: none does.
  std::uint64_t out_of_order_ns = 0;
  // The data of a message above the threshold goes apart from its announcements.
  int adaptive_routing = 0, ar_threshold = 8192;
  std::string rails = "all";   // NCCL_MESH_RAILS
  bool device_memory = false;  // the receivers' memory is a GPU's: see scenario_device.cc
  // Some plain writes land twice. An engine may have to write credits again only then, or where a
  // channel begins when another one is over and may find the old channel's rows on its own.
  bool repeats = false;
  std::optional<std::uint64_t> communicator_id;  // of all contexts, if NCCL tells it
  std::vector<HostPlan> hosts;
  // The host of each process. Process i is the first one of host i, if there is a host i.
  std::vector<std::size_t> processes;
  std::vector<ContextPlan> contexts;
  std::vector<ChannelPlan> channels;
  std::vector<GroupPlan> groups;
  std::vector<FaultPlan> faults;
  std::uint64_t messages() const;
  std::size_t sibling_number(std::size_t process) const;  // among the processes of its host
  std::string name_of(std::size_t process) const;         // "2", or "2.1" for a second process
  bool healthy() const;                                   // every host answers at once
  bool uses_indices_again() const;
  bool cabled(std::size_t host, std::size_t other) const;
  // Returns the other NICs of the host that reach the same peers.
  std::vector<std::string> doubles_of(std::size_t host, const std::string& nic) const;
  bool has_double(std::size_t host, const std::string& nic) const {
    return !doubles_of(host, nic).empty();
  }
};

Scenario draw_scenario(std::uint64_t seed, const Options& options);
Scenario draw_any_fabric(std::uint64_t seed, const Options& options);

// The parts, in files of their own.
bool is_hard(std::uint64_t seed, const Options& options);
bool wants_doubles(std::uint64_t seed, const Options& options);  // two cables where one would do
void harden_policy(TransferPolicy& policy, Random& random);
void harden_channel(ChannelPlan& channel, Random& random);
void draw_hard_faults(Scenario& scenario, Random& random);
void draw_distance(Scenario& scenario);
void draw_disorder(Scenario& scenario);
void draw_adaptive_routing(Scenario& scenario);
void draw_near(Scenario& scenario);
void draw_rails(Scenario& scenario);
void name_cables(Scenario& scenario);  // each carries alone for the channels that name it
void draw_device_memory(Scenario& scenario);
void draw_cabling(Scenario& scenario);
void draw_relays(Scenario& scenario);
void draw_groups(Scenario& scenario);
void draw_fabric(Scenario& scenario, Random& random);
void draw_channels(Scenario& scenario, Random& random);
void draw_relay_channels(Scenario& scenario, Random& random);
ChannelPlan& add_channel(Scenario& scenario, Random& random, std::size_t from, std::size_t to);
// Returns a fault of some NIC of some host, after some message.
FaultPlan draw_fault_of_nic(const Scenario& scenario, Random& random, FaultPlan::Kind kind);
void draw_faults(Scenario& scenario, Random& random);
void draw_outages(Scenario& scenario);
void draw_mute(Scenario& scenario);
void draw_pessimistic(Scenario& scenario);
void draw_recabled(Scenario& scenario);
void draw_timed(Scenario& scenario);
void draw_members(Scenario& scenario);
void draw_one_shot(Scenario& scenario);
void draw_siblings(Scenario& scenario);
std::size_t member_process(const Scenario& scenario, std::size_t host);  // in one-shot groups
void draw_deaths(Scenario& scenario);

}  // namespace mesh::sim
