#include "plugin/engine_end.h"

#include "src/base/check.h"
#include "src/base/own_thread.h"

#include <utility>

namespace mesh::plugin {

void EngineEnd::begin(std::unique_ptr<verbs::Provider> provider,
                      std::unique_ptr<Engine> engine) noexcept {
  CHECK(engine_ == nullptr && !thread_.joinable());
  provider_ = std::move(provider);
  engine_ = std::move(engine);
  if (engine_ != nullptr && engine_->waits_for_peers() &&
      start_own_thread(thread_, "mesh-goodbye", [this] { end(); }).ok())
    return;
  end();
}

void EngineEnd::end() noexcept {
  engine_.reset();
  provider_.reset();
}

void EngineEnd::wait() noexcept {
  if (thread_.joinable()) thread_.join();
}

}  // namespace mesh::plugin
