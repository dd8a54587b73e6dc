#pragma once
// How the ranks of one run find each other, in the place of NCCL's own bootstrap: TCP to rank 0, which gathers and hands
// out. The address is all a rank needs, so the same code serves processes of one host and hosts of a network.
// Thread: one owner. Every call is bounded by the timeout.

#include <mesh/status.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/unique_fd.h"

namespace mesh::driver {

inline constexpr std::uint32_t kWorldMax = 256;
inline constexpr std::uint32_t kBlobBytesMax = 16u << 20;

struct BootstrapOptions {
  int rank = 0;
  int world = 1;
  std::string address;                       // host:port of rank 0; [v6]:port
  int listening_fd = -1;                     // rank 0 only: a socket already listening there, or -1; taken over
  std::chrono::milliseconds timeout{30000};  // of every call
};

// A listening socket on the loopback interface, for a launcher that starts all ranks on this host.
struct Rendezvous {
  UniqueFd socket;  // for rank 0
  std::string address;
};
Result<Rendezvous> open_loopback_rendezvous();

class Bootstrap {
 public:
  static Result<Bootstrap> join(const BootstrapOptions& options);

  // Everybody's blob, by rank. PeerGone: a rank hung up. Timeout: one did not come.
  Result<std::vector<std::string>> all_gather(std::string_view blob);
  Status barrier();

  int rank() const noexcept { return rank_; }
  int world() const noexcept { return world_; }

 private:
  Bootstrap() = default;
  Result<std::vector<std::string>> gather_as_root(std::string_view blob);
  Result<std::vector<std::string>> gather_as_leaf(std::string_view blob);

  int rank_ = 0;
  int world_ = 1;
  std::chrono::milliseconds timeout_{0};
  std::vector<UniqueFd> peers_;  // rank 0: by rank; others: one, to rank 0
};

}  // namespace mesh::driver
