#pragma once
// Ends an engine that nobody uses any more. Its links may still say goodbye to their peers, for a
// second at most. That happens on a thread of its own, because NCCL calls finalize under a mutex of
// the process. Thread: the registry's, locked. Bound: one engine at a time.

#include <mesh/engine.h>

#include "src/verbs/provider.h"

#include <memory>
#include <thread>

namespace mesh::plugin {

class EngineEnd {
 public:
  // Returns at once. At once the engine is gone, too, if it waits for no peer.
  void begin(std::unique_ptr<verbs::Provider> provider, std::unique_ptr<Engine> engine) noexcept;
  void wait() noexcept;  // until it is gone
  bool under_way() const noexcept { return thread_.joinable(); }

 private:
  void end() noexcept;

  // The thread's while it runs.
  std::unique_ptr<verbs::Provider> provider_;
  std::unique_ptr<Engine> engine_;
  std::thread thread_;
};

}  // namespace mesh::plugin
