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
  // Returns at once. An engine that waits for no peer has ended by then.
  void begin(std::unique_ptr<verbs::Provider> provider, std::unique_ptr<Engine> engine) noexcept;
  void wait() noexcept;  // returns when the engine has ended
  bool under_way() const noexcept { return thread_.joinable(); }

 private:
  void end() noexcept;

  // Belong to the thread while it runs.
  std::unique_ptr<verbs::Provider> provider_;
  std::unique_ptr<Engine> engine_;
  std::thread thread_;
};

}  // namespace mesh::plugin
