#pragma once
// Lets the ranks of one run find each other, in the place of NCCL's own bootstrap: TCP to rank 0,
// which gathers and hands out. A rank needs only the address, so this serves processes of one host
// as well as hosts of a network. Thread: one owner. Every call is bounded by the timeout.

#include <mesh/status.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/socket.h"
#include "src/base/unique_fd.h"

namespace mesh::driver {

inline constexpr std::uint32_t kWorldMax = 256;
inline constexpr std::uint32_t kBlobBytesMax = 16u << 20;

struct BootstrapOptions {
  int rank = 0;
  int world = 1;
  std::string address;    // host:port of rank 0; [v6]:port
  int listening_fd = -1;  // rank 0 only: a socket already listening there, or -1; taken over
  std::chrono::milliseconds timeout{30000};  // of every call
  std::vector<int>* missing = nullptr;       // rank 0: gets the ranks that did not come
  std::string* why = nullptr;                // gets a sentence if they do not meet
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

  // Returns the blobs of all ranks, by rank. Returns PeerGone if a rank hung up, Timeout if one did
  // not come; lost() names it.
  Result<std::vector<std::string>> all_gather(std::string_view blob);
  Status barrier();
  // Keeps the first rank of each group, and numbers these ranks anew in their order. Returns false
  // on a rank that is left out, which is alone then.
  Result<bool> keep_first_of(std::string_view group);
  void set_timeout(std::chrono::milliseconds timeout) noexcept { timeout_ = timeout; }
  int lost() const noexcept { return lost_; }  // the first rank that failed us; -1: none

  // Returns a descriptor that is readable between two calls only if a rank has hung up.
  Result<UniqueFd> watch() const;
  // Returns our address as the others reach it; the loopback one if there are no others.
  SocketAddress local_address() const;

  int rank() const noexcept { return rank_; }
  int world() const noexcept { return world_; }

 private:
  Bootstrap() = default;
  Status meet(const BootstrapOptions& options, std::vector<int>* missing);
  Result<std::vector<std::string>> gather_as_root(std::string_view blob);
  Result<std::vector<std::string>> hand_out(std::vector<std::string> blobs,
                                            std::chrono::steady_clock::time_point deadline);
  Result<std::vector<std::string>> gather_as_leaf(std::string_view blob);

  void tell_of_loss();

  int rank_ = 0;
  int world_ = 1;
  int lost_ = -1;
  std::chrono::milliseconds timeout_{0};
  std::vector<UniqueFd> peers_;  // rank 0: by rank; others: one, to rank 0
};

}  // namespace mesh::driver
