// The software fabric under contract, in the ways its bytes can travel. Another provider adds its kinds beside these.

#include "src/soft/soft_provider.h"
#include "tests/contract/endpoint_pair.h"

#include <gtest/gtest.h>

namespace mesh::contract {

namespace {

constexpr const char* kPair = R"({"name": "pair",
  "hosts": [{"name": "a", "nics": [{"name": "mesh0", "address": "10.0.12.1/24"}]},
            {"name": "b", "nics": [{"name": "mesh0", "address": "10.0.12.2/24"}]}],
  "links": [{"ends": ["a/mesh0", "b/mesh0"]}]})";
constexpr const char* kShapedPair = R"({"name": "shaped",
  "hosts": [{"name": "a", "nics": [{"name": "mesh0", "address": "fd00::1/64"}]},
            {"name": "b", "nics": [{"name": "mesh0", "address": "fd00::2/64"}]}],
  "links": [{"ends": ["a/mesh0", "b/mesh0"], "gbps": 200, "delay_us": 3, "mtu": 1024, "qp_gbps": 100}]})";

class SoftPair final : public ProviderPair {
 public:
  SoftPair(const char* text, soft::CopyMode copy, soft::Agent agent) {
    const Result<soft::FabricFile> fabric = soft::parse(text);
    left_ = open(*fabric, "a", copy, agent);
    right_ = open(*fabric, "b", copy, agent);
  }
  bool good() const { return left_ != nullptr && right_ != nullptr; }
  verbs::Provider& left() override { return *left_; }
  verbs::Provider& right() override { return *right_; }

 private:
  static std::unique_ptr<soft::SoftProvider> open(const soft::FabricFile& fabric, const char* host, soft::CopyMode copy,
                                                  soft::Agent agent) {
    soft::SoftOptions options;
    options.fabric = fabric;
    options.host = host;
    options.copy = copy;
    options.agent = agent;
    Result<std::unique_ptr<soft::SoftProvider>> provider = soft::SoftProvider::open(std::move(options));
    EXPECT_TRUE(provider.ok());
    return provider.ok() ? std::move(*provider) : nullptr;
  }
  std::unique_ptr<soft::SoftProvider> left_, right_;
};

template <soft::CopyMode kCopy, soft::Agent kAgent>
std::unique_ptr<ProviderPair> make_pair() {
  return std::make_unique<SoftPair>(kPair, kCopy, kAgent);
}
std::unique_ptr<ProviderPair> make_shaped() {
  return std::make_unique<SoftPair>(kShapedPair, soft::CopyMode::Auto, soft::Agent::None);
}

}  // namespace

std::vector<ProviderKind> provider_kinds() {
  return {{"SoftMemory", make_pair<soft::CopyMode::Auto, soft::Agent::None>},
          {"SoftCells", make_pair<soft::CopyMode::Cells, soft::Agent::None>},
          {"SoftAgent", make_pair<soft::CopyMode::Auto, soft::Agent::Thread>},
          {"SoftShaped", make_shaped}};
}

}  // namespace mesh::contract
