#include "tests/unit/soft/manual_fabric.h"
#include "tests/unit/soft/open_host.h"

namespace mesh::soft {
namespace {

void collect(ibv_cq* cq, std::uint64_t now_ns, std::vector<Seen>& into) {
  std::array<ibv_wc, 16> wc{};
  for (int found = 1; found > 0;) {
    found = ibv_poll_cq(cq, static_cast<int>(wc.size()), wc.data());
    for (int i = 0; i < found; ++i) into.push_back({now_ns, wc[static_cast<std::size_t>(i)]});
  }
}

FabricFile pair_of(const std::string& link_fields, const std::string& costs) {
  return *parse(
      R"({"name": "pair",
    "hosts": [{"name": "a", "nics": [{"name": "mesh0", "address": "10.0.12.1/24"}]},
              {"name": "b", "nics": [{"name": "mesh0", "address": "10.0.12.2/24"}]}],
    "links": [{"ends": ["a/mesh0", "b/mesh0"])" +
      (link_fields.empty() ? "" : ", " + link_fields) + R"(}], "nic_costs": )" + costs + "}");
}

}  // namespace

ManualFabric::ManualFabric(const std::string& link_fields, std::size_t pairs,
                           const contract::PairOptions& options, const std::string& costs)
    : ManualFabric(pair_of(link_fields, costs), pairs, options) {}

ManualFabric::ManualFabric(const FabricFile& fabric, std::size_t pairs,
                           const contract::PairOptions& options)
    : left(pairs), right(pairs), sent(pairs), received(pairs) {
  const auto open = [&](const char* host) {
    return testkit::open_host(
        {.fabric = fabric, .host = host, .agent = Agent::None, .clock = Clock(&clock_ns)});
  };
  a = open("a");
  b = open("b");
  for (std::size_t i = 0; i < pairs; ++i) {
    const std::size_t nic = i % fabric.hosts[0].nics.size();
    EXPECT_TRUE(open_endpoint(left[i], *a, options, nic) &&
                open_endpoint(right[i], *b, options, nic) &&
                connect_endpoints(left[i], right[i], options));
  }
}

ManualFabric::~ManualFabric() {
  for (contract::Endpoint& endpoint : left) close_endpoint(endpoint);
  for (contract::Endpoint& endpoint : right) close_endpoint(endpoint);
}

void ManualFabric::run(std::uint64_t until_ns) {
  constexpr int kStepsMax = 10'000'000;
  for (int step = 0;; ++step) {
    ASSERT_LT(step, kStepsMax) << "it never comes to rest";
    bool moved = a->turn();
    moved |= b->turn();
    for (std::size_t i = 0; i < left.size(); ++i) {
      collect(left[i].send_cq, now_ns(), sent[i]);
      collect(right[i].receive_cq, now_ns(), received[i]);
    }
    if (moved) continue;
    const std::uint64_t due_ns = std::min(a->next_due_ns(), b->next_due_ns());
    if (due_ns == UINT64_MAX || due_ns > until_ns) break;
    if (due_ns == 0) continue;  // polling has just rung a bell
    ASSERT_GT(due_ns, now_ns()) << "a turn that is due has done nothing";
    clock_ns.store(due_ns);
  }
  if (until_ns != UINT64_MAX) clock_ns.store(until_ns);
}

int ManualFabric::write(std::size_t pair, std::uint64_t wr_id, std::uint32_t bytes,
                        unsigned flags) {
  contract::SendRequest request = write_request(left[pair], right[pair], wr_id, bytes);
  request.wr.send_flags = flags;
  return post(left[pair], request);
}

int ManualFabric::announce(std::size_t pair, std::uint64_t wr_id, std::uint32_t bytes) {
  if (const int error = post_receive(right[pair], wr_id); error != 0) return error;
  contract::SendRequest request = write_request(left[pair], right[pair], wr_id, bytes);
  request.wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  return post(left[pair], request);
}

}  // namespace mesh::soft
