#pragma once
// A provider that passes every call on to a host of the software fabric, which it owns. A test
// overrides the few calls that it needs. Thread: any. Bounds: those of the host.

#include "src/soft/soft_provider.h"
#include "src/verbs/forwarding_provider.h"
#include "tests/standard.h"

namespace mesh::testkit {

class PassingProvider : public verbs::ForwardingProvider {
 public:
  explicit PassingProvider(std::unique_ptr<soft::SoftProvider> under)
      : ForwardingProvider(*under), under_(std::move(under)) {}

  soft::SoftProvider& under() noexcept { return *under_; }

 private:
  const std::unique_ptr<soft::SoftProvider> under_;
};

}  // namespace mesh::testkit
