#pragma once
// Two connected endpoints of one provider kind, as the contract suite sees them. A provider joins
// the suite with a factory. Thread: the test's.

#include <infiniband/verbs.h>

#include "src/verbs/provider.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

namespace mesh::contract {

inline constexpr int kAllAccess =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

struct PairOptions {
  std::uint32_t send_depth = 16, receive_depth = 16;
  std::uint32_t max_inline = 64;
  std::uint8_t timeout = 8, retry_count = 1;  // 4.096 us * 2^8 * 2: 2.1 ms
  std::uint8_t rnr_retry = 7, min_rnr_timer = 1;
  unsigned access = kAllAccess;  // that the queue pairs grant
};

// Two hosts that reach each other; for real devices both may be this one.
enum class Side : std::uint8_t { Left, Right };

// What a provider under contract offers on one side. Outlives its endpoints.
struct Host {
  std::unique_ptr<verbs::Provider> provider;
  std::string device;
};

// One side: everything it owns, and what the other side needs to know to connect.
struct Endpoint {
  verbs::Provider* provider = nullptr;
  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
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

// Set-up steps, also used by the suite's other process. Each fails the running test with EXPECT and
// answers false.
bool open_endpoint(Endpoint& endpoint, const Host& host, const PairOptions& options);
bool open_endpoint(Endpoint& endpoint, verbs::Provider& provider,
                   const PairOptions& options);  // on its first device
bool connect_endpoint(Endpoint& endpoint, const ibv_gid& peer_gid, std::uint32_t peer_qp_num,
                      const PairOptions& options);
void close_endpoint(Endpoint& endpoint);

// Where providers may differ. The defaults are what an adapter does; a kind says what differs.
struct Traits {
  bool exact_room = true;  // a queue is full at the depth that create_qp granted, not later
  // Room comes back when a later signaled request has been polled. If false, it comes back as soon
  // as a request was executed.
  bool room_by_polling = true;
  bool flushes_late_receives = true;  // flushes a receive that is posted in the error state
  bool forgets_destroyed = true;      // destroying a queue pair removes its completions
  bool needs_its_process = false;     // its NIC stands still while the process is stopped
  bool checks_counts = true;          // checks the numbers of retries and of reads
  bool resolves_addresses = true;     // looks for the peer's address in the step to RTR
  bool sees_protection = true;        // refuses to register read-only memory for writing
  bool device_memory = false;  // takes what tests/device_memory offers, by descriptor and address
  ibv_wc_status write_not_granted = IBV_WC_REM_ACCESS_ERR;  // the queue pair grants no writes
  ibv_wc_status wrong_local_key = IBV_WC_LOC_PROT_ERR;
  ibv_wc_status too_long_send = IBV_WC_REM_INV_REQ_ERR, too_long_receive = IBV_WC_LOC_LEN_ERR;
  ibv_wc_status port_down = IBV_WC_RETRY_EXC_ERR;  // status of a request on a port that is down
  std::uint8_t timeout = 8, retry_count = 1;       // a healthy pair never needs them
  std::uint64_t settle_ns = 0;  // the least time to look before "nothing came" is certain
};

enum class PortState : std::uint8_t { Down, Up };

struct ProviderKind {
  std::string name;
  // No provider: there is none here, and the reason was printed; the tests fail.
  Host (*open)(Side side);
  Traits traits;
  // They break something on purpose. Null: it cannot be done here. False: it did not work.
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
  }  // how GoogleTest says it
};

// Of this run: both sides in one process, each side in a process of its own.
std::vector<ProviderKind> provider_kinds();
std::vector<ProviderKind> process_kinds();

}  // namespace mesh::contract
