#pragma once
// The provider kinds that the contract suite can run on, and a way to open a software host for the
// software fabric's own tests. Thread: the test's.

#include "src/soft/soft_provider.h"
#include "tests/contract/endpoint_pair.h"

namespace mesh::contract {

std::vector<ProviderKind> soft_kinds();          // both sides in one process
std::vector<ProviderKind> soft_process_kinds();  // each side in its own process
std::vector<ProviderKind> rdma_kinds();  // the first RDMA device of this host serves both sides

// Opens a host of the suite's pair: "a", "b", or the first free one if `host` is empty.
Result<std::unique_ptr<soft::SoftProvider>> open_soft(const std::string& host);

}  // namespace mesh::contract
