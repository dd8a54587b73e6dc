// A double that passes calls on offers everything that the host beneath it offers.
#include "tests/unit/soft/passing_provider.h"

#include "src/verbs/handle.h"
#include "tests/unit/soft/open_host.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <memory>

namespace mesh::testkit {
namespace {

constexpr const char* kEverything = R"({"name":"everything",
  "hosts":[{"name":"a","nics":[{"name":"n0","address":"10.0.1.1/24","ece":7,
                                "device_memory":"both"}]}]})";

std::unique_ptr<soft::SoftProvider> open_everything() {
  return open_host(
      {.fabric = *soft::parse(kEverything), .host = "a", .agent = soft::Agent::None, .clock = {}});
}

TEST(PassingProvider, OffersWhatTheHostBeneathOffers) {
  PassingProvider passing(open_everything());
  verbs::Provider& provider = passing;
  const verbs::ContextHandle context(provider, provider.open_device("n0"));
  const verbs::PdHandle pd(provider, provider.alloc_pd(context.get()));
  const verbs::CqHandle cq(provider, provider.create_cq(context.get(), 1));
  ibv_qp_init_attr attr{};
  attr.send_cq = attr.recv_cq = cq.get();
  attr.qp_type = IBV_QPT_RC;
  attr.cap.max_send_wr = attr.cap.max_recv_wr = 1;
  attr.cap.max_send_sge = attr.cap.max_recv_sge = 1;
  const verbs::QpHandle qp(provider, provider.create_qp(pd.get(), &attr));
  ASSERT_TRUE(qp);
  ibv_ece options{};
  EXPECT_EQ(provider.query_ece(qp.get(), &options), 0);
  EXPECT_EQ(options.options, 7u);
  EXPECT_TRUE(provider.has_peer_memory(context.get()));
  EXPECT_EQ(provider.reg_dmabuf_mr(pd.get(), {}, 0), nullptr);
  EXPECT_EQ(errno, EBADF) << "the device looked at the descriptor";
}

}  // namespace
}  // namespace mesh::testkit
