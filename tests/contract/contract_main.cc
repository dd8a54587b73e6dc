// The contract suite as one program for every provider. It runs on the software fabric or, with
// --rdma, on the first RDMA device of this host, which must exist.

#include "tests/contract/kinds.h"

#include "tests/prelude.h"

namespace mesh::contract {
namespace {
bool& on_rdma() {
  static bool chosen = false;
  return chosen;
}
}  // namespace

// GoogleTest calls these within InitGoogleTest, after run() has chosen the provider.
std::vector<ProviderKind> provider_kinds() { return on_rdma() ? rdma_kinds() : soft_kinds(); }
std::vector<ProviderKind> process_kinds() {
  return on_rdma() ? rdma_kinds() : soft_process_kinds();
}

int run(int argc, char** argv) {
  char** const end = std::remove_if(
      argv + 1, argv + argc, [](const char* word) { return std::strcmp(word, "--rdma") == 0; });
  int count = static_cast<int>(end - argv);
  on_rdma() = count != argc;
  if (on_rdma()) testing::GTEST_FLAG(filter) = "-Claims.*";  // tests of the software fabric only
  testing::InitGoogleTest(&count, argv);
  return RUN_ALL_TESTS();
}

}  // namespace mesh::contract

int main(int argc, char** argv) { return mesh::contract::run(argc, argv); }
