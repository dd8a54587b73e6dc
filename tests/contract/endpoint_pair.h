#pragma once
// Two connected endpoints of one provider kind, as the contract suite uses them. A provider joins
// the suite with a factory (ProviderKind::open). Thread: the test's.

#include <infiniband/verbs.h>

#include "src/verbs/provider.h"
#include "tests/prelude.h"

namespace mesh::contract {

inline constexpr int kAllAccess =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

struct PairOptions {
  std::uint32_t send_depth = 16, receive_depth = 16;
  std::uint32_t max_inline = 64;
  std::uint8_t timeout = 8, retry_count = 1;  // 4.096 us * 2^8 * 2: 2.1 ms
  std::uint8_t rnr_retry = 7, min_rnr_timer = 1;
  unsigned access = kAllAccess;  // granted by the queue pairs
  // The queues of receives report to a channel, if the device has completion events.
  bool reports = false;
};

// The two hosts of a pair, which reach each other. With real devices both may be this host.
enum class Side : std::uint8_t { Left, Right };

// A provider under contract and its device, on one side. Outlives its endpoints.
struct Host {
  std::unique_ptr<verbs::Provider> provider;
  std::string device;
};

// The verbs objects of one side, and the values that the peer needs to connect to it.
struct Endpoint {
  verbs::Provider* provider = nullptr;
  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  ibv_comp_channel* channel = nullptr;  // of receive_cq; null: it reports nothing
  ibv_cq* send_cq = nullptr;
  ibv_cq* receive_cq = nullptr;
  ibv_qp* qp = nullptr;
  ibv_qp_cap cap{};
  verbs::GidEntry gid;
  ibv_mtu mtu = IBV_MTU_1024;
  std::vector<std::byte> memory;
  ibv_mr* mr = nullptr;

  std::uint64_t address(std::size_t offset = 0) const {
    return reinterpret_cast<std::uintptr_t>(memory.data() + offset);
  }
};

inline constexpr std::size_t kEndpointBytes = 4 << 20;

// Set-up steps, also used by the suite's second process. Each one fails the running test with
// EXPECT and returns false on an error.
bool open_endpoint(Endpoint& endpoint, const Host& host, const PairOptions& options);
bool open_endpoint(Endpoint& endpoint, verbs::Provider& provider, const PairOptions& options,
                   std::size_t device = 0);  // by its number
bool connect_endpoint(Endpoint& endpoint, const ibv_gid& peer_gid, std::uint32_t peer_qp_num,
                      const PairOptions& options);
bool connect_endpoints(Endpoint& one, Endpoint& other, const PairOptions& options);
bool open_pair(Endpoint& one, verbs::Provider& provider_of_one, Endpoint& other,
               verbs::Provider& provider_of_other, const PairOptions& options = {});
void close_endpoint(Endpoint& endpoint);

// A work request with its one scatter-gather element. A test changes the fields that it is about.
struct SendRequest {
  ibv_send_wr wr{};
  ibv_sge sge{};
};

SendRequest write_request(const Endpoint& from, const Endpoint& to, std::uint64_t wr_id,
                          std::uint32_t bytes);
int to_error(Endpoint& endpoint);
int post(Endpoint& from, SendRequest request);
int post_receive(Endpoint& endpoint, std::uint64_t wr_id, std::uint32_t bytes = 0,
                 std::size_t offset = 0);

// The points in which providers may differ. The defaults describe a hardware adapter; each kind
// overrides the values that differ.
struct Traits {
  bool exact_room = true;  // a queue is full at the depth that create_qp granted, not later
  // Room comes back when the completion of a later signaled request has been polled. If false, room
  // comes back as soon as a request has been executed.
  bool room_by_polling = true;
  bool flushes_late_receives = true;  // flushes a receive that is posted in the error state
  bool forgets_destroyed = true;      // destroying a queue pair removes its completions
  bool needs_its_process = false;     // its NIC stops while the process is stopped
  bool checks_counts = true;          // checks the retry counts and the outstanding reads
  bool resolves_addresses = true;     // resolves the peer's address in the step to RTR
  bool sees_protection = true;        // refuses to register read-only memory for writing
  bool device_memory = false;         // registers tests/device_memory, by descriptor and by address
  ibv_wc_status write_not_granted = IBV_WC_REM_ACCESS_ERR;  // if the queue pair grants no writes
  ibv_wc_status wrong_local_key = IBV_WC_LOC_PROT_ERR;
  ibv_wc_status too_long_send = IBV_WC_REM_INV_REQ_ERR, too_long_receive = IBV_WC_LOC_LEN_ERR;
  ibv_wc_status port_down = IBV_WC_RETRY_EXC_ERR;  // status of a request on a port that is down
  std::uint8_t timeout = 8, retry_count = 1;       // a healthy pair never uses them
  std::uint64_t settle_ns = 0;  // the least time to poll before a test may say that nothing came
};

enum class PortState : std::uint8_t { Down, Up };

struct ProviderKind {
  std::string name;
  // Opens one side. Returns a Host without a provider if this machine has none: the reason has been
  // printed, and the tests fail.
  Host (*open)(Side side);
  Traits traits;
  // Injects a fault. Null if this provider cannot do so here. Returns false if the fault failed.
  bool (*set_port)(const Host& host, const std::string& netdev, PortState state) = nullptr;
  bool (*fail_queue_pairs)(const Host& host) = nullptr;

  PairOptions pair_options() const {
    PairOptions options;
    options.timeout = traits.timeout;
    options.retry_count = traits.retry_count;
    return options;
  }
  friend void PrintTo(const ProviderKind& kind, std::ostream* out) {
    *out << kind.name;
  }  // for the messages of GoogleTest
};

// The kinds that this run tests: with both sides in one process, and each side in its own process.
std::vector<ProviderKind> provider_kinds();
std::vector<ProviderKind> process_kinds();

}  // namespace mesh::contract
