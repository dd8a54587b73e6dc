// Arms lists of faults as a fabric file has them, and asks for them at any time.
#include "src/soft/fabric_file.h"
#include "src/soft/fault_plan.h"
#include "tests/fuzz/quiet_log.h"

namespace mesh {

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::string kBefore = R"({"name":"cable",
    "hosts":[{"name":"a","nics":[{"name":"n0","address":"10.0.1.1/24"}]},{"name":"b",
       "nics":[{"name":"n0","address":"10.0.1.2/24"}]}],
    "links":[{"ends":["a/n0","b/n0"]}],"faults":)";
  const Result<soft::FabricFile> file =
      soft::parse(kBefore + std::string(reinterpret_cast<const char*>(data), size) + "}");
  if (!file.ok()) return 0;
  soft::FaultPlan plan;
  for (const soft::Fault& fault : file->faults) {
    const Status armed = plan.arm(fault);
    fuzz::expect(armed.ok(), "a fault of a file that parses and that cannot be armed");
  }
  constexpr std::array<std::uint64_t, 5> kTimes{0, 1, 1'000'000, 10'000'000'000, UINT64_MAX};
  for (const std::uint64_t now_ns : kTimes) {
    for (std::uint32_t round = 0; round < 3; ++round) {
      const soft::FaultPlan::PostVerdict verdict =
          plan.on_post("n0", {.qp_num = round, .packet_bytes = 4096}, now_ns);
      fuzz::expect(verdict.delay_ns <= soft::kFaultsMax * soft::kFaultDelayMaxNs,
                   "a delay without bound");
    }
    static_cast<void>(plan.cut_off("n0", "b", now_ns));
  }
  plan.disarm_all();
  fuzz::expect(!plan.armed(), "armed for ever");
  return 0;
}

}  // namespace mesh
