#pragma once
// The provider over rdma-core. It forwards set-up calls to libibverbs, and reads what libibverbs
// does not know from sysfs and from the host's interface addresses. Thread: any (libibverbs locks).
// Bound: none.

#include <mesh/status.h>

#include "src/base/socket.h"
#include "src/verbs/kernel_route.h"
#include "src/verbs/provider.h"
#include "src/verbs/rdma_api.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace mesh::verbs {

// Returns NotFound if libibverbs is missing or too old; one INFO line said so. If there is no
// device, devices() is empty, which is no error.
Result<std::unique_ptr<Provider>> open_rdma();

// The seam for tests: a table of functions, a sysfs tree, interface addresses and routes.
struct RdmaOptions {
  VerbsApi api;
  std::string sysfs_root = "/sys";
  std::function<std::vector<InterfaceAddress>()> addresses = all_interfaces;
  std::function<Route(const GidEntry& from, const ibv_gid& to)> route = kernel_route;
};
std::unique_ptr<Provider> make_rdma_provider(RdmaOptions options);

}  // namespace mesh::verbs
