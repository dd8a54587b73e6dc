#pragma once
// A rail of this host with relayed queue pairs: a provider that passes every call to the real one,
// except that its completion queues and queue pairs speak over a chain. They are synthetic objects
// whose context has its own post and poll functions, so a direct queue pair of the rail costs no
// more than without them. Receives and their completions are the real ones. Thread: as Provider;
// the calls about chains from any. Bound: kEndQueuePairsMax queue pairs of a completion queue.

#include <mesh/status.h>

#include "src/relay/wire.h"
#include "src/verbs/forwarding_provider.h"

#include <cstdint>

namespace mesh::relay {

inline constexpr std::uint32_t kEndQueuePairsMax = 4096;

// The progress of one queue pair, for a watcher.
struct EndProgress {
  std::uint64_t outstanding = 0;  // work requests that are posted and neither done nor failed
  std::uint64_t moved = 0;        // grows with every count that comes back
  bool failed = false;
};

// Stops queue pairs whose chains are gone on other threads, because a device may take long for it.
// Thread: any.
class Stopper {
 public:
  // Has EndDevice::modify_qp called to move the queue pair to ERR. Returns false if the caller must
  // do it.
  virtual bool stop_soon(ibv_qp* qp) noexcept = 0;
  virtual bool has_threads() const noexcept = 0;  // false: the caller always does it

 protected:
  ~Stopper() = default;
};

class EndDevice final : public verbs::ForwardingProvider {
 public:
  // `context` is an open one of the real provider. All of them outlive the device. Without a
  // stopper the thread that notices the end of a chain stops the queue pair.
  EndDevice(verbs::Provider& real, ibv_context* context, Stopper* stopper = nullptr) noexcept;
  EndDevice(const EndDevice&) = delete;
  EndDevice& operator=(const EndDevice&) = delete;

  // ---- Chains, for queue pairs that this device has made.
  // Sets where the next host's ring lies: between create_qp and the step to RTS, which needs it,
  // and again after RESET. Returns InvalidArgument if it can be no ring, or one is set already.
  Status set_ring(ibv_qp* qp, const RingTarget& ring);
  // Returns where the next host writes its counts. Valid until destroy_qp.
  CountsTarget counts(const ibv_qp* qp) const;
  // Fails a queue pair whose chain is gone: the oldest work request completes with the status,
  // which is not success; the others and the receives are flushed, as after an error of the queue
  // pair's own.
  void fail(ibv_qp* qp, ibv_wc_status status) noexcept;
  EndProgress progress(const ibv_qp* qp) const noexcept;
  // Returns true if work is outstanding and no count has come for kRelayWorkToCountNs, or our card
  // shows no completion of what was counted: the chain is dead. One thread asks now and then; the
  // first call of such a stretch returns false.
  bool stuck(ibv_qp* qp, std::uint64_t now_ns) noexcept;

  // ---- Provider. Objects that are not this device's are passed on. create_qp takes completion
  // queues of this device, grants one element to a send and as many inline bytes as a slot holds;
  // posts take plain writes and writes with immediate.
  ibv_cq* create_cq(ibv_context* context, int entries) override;
  int destroy_cq(ibv_cq* cq) override;
  ibv_qp* create_qp(ibv_pd* pd, ibv_qp_init_attr* attr) override;
  int modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask) override;
  int destroy_qp(ibv_qp* qp) override;
  int query_ece(ibv_qp* qp, ibv_ece* ece) override;
  int set_ece(ibv_qp* qp, ibv_ece* ece) override;

 private:
  bool is_ours(const ibv_context* context) const noexcept { return context == &context_; }

  verbs::Provider& real_;
  Stopper* const stopper_;
  ibv_context context_{};  // its post and poll functions are ours
  ibv_device device_{};
};

}  // namespace mesh::relay
