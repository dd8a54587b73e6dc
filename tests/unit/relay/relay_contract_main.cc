// The contract suite over chains of one and of two middle hosts. Features that a relayed queue pair
// does not have are left out by name.

#include "tests/contract/endpoint_pair.h"
#include "tests/prelude.h"
#include "tests/unit/relay/relayed_provider.h"

namespace mesh::contract {
namespace {

// Only plain writes and writes with immediate of one element are relayed. The counts that come back
// are writes, too. A mistake of the poster ends the way back, so the outcome of earlier requests
// stays unknown.
constexpr const char* kLeftOut =
    "-*.ElementsAreGathered/*"
    ":*.SendFillsTheReceive/*"
    ":*.ReadBringsTheRemoteBytes/*"
    ":*.TooLongASendFailsBothSides/*"
    ":*.QueuePairThatDoesNotGrantWritesRefusesThem/*"
    ":*.WrongLocalKeyIsALocalProtectionError/*";

template <std::size_t kMiddles>
Host open_relayed(Side side) {
  // Both sides of a test share the world. The left side opens first.
  static std::weak_ptr<relay::testkit::RelayWorld> shared;
  std::shared_ptr<relay::testkit::RelayWorld> world = shared.lock();
  if (world == nullptr) shared = world = std::make_shared<relay::testkit::RelayWorld>(kMiddles);
  const std::size_t end = side == Side::Left ? 0 : 1;
  return {std::make_unique<relay::testkit::RelayedProvider>(world, end),
          end == 0 ? "right" : "left"};
}

ProviderKind kind(const char* name, Host (*open)(Side side)) {
  Traits traits;
  traits.sees_protection = false;
  traits.settle_ns = 50'000'000;  // a thread moves the data
  return {name, open, traits};
}

}  // namespace

std::vector<ProviderKind> provider_kinds() {
  return {kind("OneMiddleHost", open_relayed<1>), kind("TwoMiddleHosts", open_relayed<2>)};
}
std::vector<ProviderKind> process_kinds() { return {}; }

}  // namespace mesh::contract

int main(int argc, char** argv) {
  testing::GTEST_FLAG(filter) = mesh::contract::kLeftOut;
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
