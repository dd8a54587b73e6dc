#pragma once
// The providers that can be put under contract, and what the software fabric's own tests need of
// it. Thread: the test's.

#include "src/soft/soft_provider.h"
#include "tests/contract/endpoint_pair.h"

#include <memory>
#include <string>
#include <vector>

namespace mesh::contract {

std::vector<ProviderKind> soft_kinds();          // both sides in one process
std::vector<ProviderKind> soft_process_kinds();  // each in its own
std::vector<ProviderKind> rdma_kinds();          // the first RDMA device of this host, for either

// A host of the suite's pair, "a" or "b"; empty: the first that is free.
Result<std::unique_ptr<soft::SoftProvider>> open_soft(const std::string& host);

}  // namespace mesh::contract
