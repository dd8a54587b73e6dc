#pragma once
// Two connected endpoints of one provider kind, as the contract suite sees them. A provider joins the suite with a factory.
// Thread: the test's.

#include <infiniband/verbs.h>

#include "src/verbs/provider.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

namespace mesh::contract {

struct PairOptions {
  std::uint32_t send_depth = 16, receive_depth = 16;
  std::uint32_t max_inline = 64;
  std::uint8_t timeout = 8, retry_count = 1;  // 4.096 us * 2^8 * 2: 2.1 ms
  std::uint8_t rnr_retry = 7, min_rnr_timer = 1;
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

  std::uint64_t address(std::size_t offset = 0) const { return reinterpret_cast<std::uintptr_t>(memory.data() + offset); }
};

inline constexpr std::size_t kEndpointBytes = 4 << 20;
inline constexpr int kAllAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

// Set-up steps, also used by the suite's other process. Each fails the running test with EXPECT and answers false.
bool open_endpoint(Endpoint& endpoint, verbs::Provider& provider, const PairOptions& options);
bool connect_endpoint(Endpoint& endpoint, const ibv_gid& peer_gid, std::uint32_t peer_qp_num, const PairOptions& options);
void close_endpoint(Endpoint& endpoint);

// What a provider under contract offers: two hosts that reach each other. Destroyed after the endpoints.
class ProviderPair {
 public:
  virtual ~ProviderPair() = default;
  virtual verbs::Provider& left() = 0;
  virtual verbs::Provider& right() = 0;
};

struct ProviderKind {
  std::string name;
  std::unique_ptr<ProviderPair> (*make)();  // null: not available here, the tests are skipped

  friend void PrintTo(const ProviderKind& kind, std::ostream* out) { *out << kind.name; }  // how GoogleTest says it
};

}  // namespace mesh::contract
