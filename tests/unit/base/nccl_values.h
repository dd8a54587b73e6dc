#pragma once
// Values that NCCL's own transport accepts for its settings, each with the place in NCCL that says
// so.
// Thread: any (constant). Bound: the tables.

#include <mesh/config.h>

#include "tests/prelude.h"

namespace mesh::testkit {

struct NcclValue {
  const char* variable;
  const char* text;
  int Settings::*member;
  int expected;
  const char* source;  // the place in NCCL 2.30.7 that accepts this value, and how
};

// Values that set `member` to `expected` without a warning. Paths of NCCL's files are relative to
// its src/, or to docs/userguide/source/ for env.rst.
inline const std::vector<NcclValue> kAcceptedByNccl = {
    {"NCCL_IB_TC", "-1", &Settings::traffic_class, kAuto, "connect.cc NCCL_PARAM(IbTc): unset"},
    {"NCCL_IB_TC", "0", &Settings::traffic_class, 0, "env.rst NCCL_IB_TC"},
    {"NCCL_IB_TC", "106", &Settings::traffic_class, 106, "ibv_global_route.traffic_class: 8 bits"},
    {"NCCL_IB_TC", "0152", &Settings::traffic_class, 106, "misc/param.cc: strtoll, base 0"},
    {"NCCL_IB_TC", "0x6a", &Settings::traffic_class, 106, "misc/param.cc: strtoll, base 0"},
    {"NCCL_IB_TC", " 255", &Settings::traffic_class, 255, "misc/param.cc: strtoll skips blanks"},
    {"NCCL_IB_TC", "+8", &Settings::traffic_class, 8, "misc/param.cc: strtoll"},
    {"NCCL_IB_SL", "-1", &Settings::service_level, kAuto, "connect.cc NCCL_PARAM(IbSl): unset"},
    {"NCCL_IB_SL", "0", &Settings::service_level, 0, "env.rst NCCL_IB_SL"},
    {"NCCL_IB_SL", "15", &Settings::service_level, 15, "InfiniBand: 4 bits"},
    {"NCCL_IB_TIMEOUT", "0", &Settings::timeout, 0, "env.rst NCCL_IB_TIMEOUT: infinite"},
    {"NCCL_IB_TIMEOUT", "20", &Settings::timeout, 20, "connect.cc NCCL_PARAM(IbTimeout)"},
    {"NCCL_IB_TIMEOUT", "31", &Settings::timeout, 31, "env.rst NCCL_IB_TIMEOUT: 0-31"},
    {"NCCL_IB_RETRY_CNT", "0", &Settings::retry_count, 0, "env.rst NCCL_IB_RETRY_CNT: 0-7"},
    {"NCCL_IB_RETRY_CNT", "7", &Settings::retry_count, 7, "env.rst NCCL_IB_RETRY_CNT: 0-7"},
    {"NCCL_IB_GID_INDEX", "-1", &Settings::gid_index, kAuto, "env.rst NCCL_IB_GID_INDEX"},
    {"NCCL_IB_GID_INDEX", "-7", &Settings::gid_index, kAuto, "connect.cc: below 0 is dynamic"},
    {"NCCL_IB_GID_INDEX", "3", &Settings::gid_index, 3, "env.rst NCCL_IB_GID_INDEX"},
    {"NCCL_IB_GID_INDEX", "255", &Settings::gid_index, 255, "ibv_global_route.sgid_index: 8 bits"},
    {"NCCL_IB_PKEY", "0", &Settings::pkey_index, 0, "connect.cc NCCL_PARAM(IbPkey)"},
    {"NCCL_IB_PKEY", "65535", &Settings::pkey_index, 65535, "ibv_qp_attr.pkey_index: 16 bits"},
    {"NCCL_IB_ROCE_VERSION_NUM", "1", &Settings::roce_version, 1,
     "connect.cc ncclIbRoceGetVersionNum: 1 or 2"},
    {"NCCL_IB_ROCE_VERSION_NUM", "2", &Settings::roce_version, 2, "env.rst: the default"},
    {"NCCL_IB_ADAPTIVE_ROUTING", "-2", &Settings::adaptive_routing, kAuto,
     "net_ib/init.cc NCCL_PARAM(IbAdaptiveRouting): by the link layer"},
    {"NCCL_IB_ADAPTIVE_ROUTING", "-1", &Settings::adaptive_routing, kAuto, "as other settings"},
    {"NCCL_IB_ADAPTIVE_ROUTING", "0", &Settings::adaptive_routing, 0, "env.rst"},
    {"NCCL_IB_ADAPTIVE_ROUTING", "1", &Settings::adaptive_routing, 1, "env.rst"},
    {"NCCL_IB_AR_THRESHOLD", "-2", &Settings::ar_threshold, 8192,
     "p2p.cc NCCL_PARAM(IbArThreshold): unset"},
    {"NCCL_IB_AR_THRESHOLD", "0", &Settings::ar_threshold, 0, "env.rst: size in bytes"},
    {"NCCL_IB_AR_THRESHOLD", "2147483647", &Settings::ar_threshold, INT_MAX,
     "p2p.cc: compared with the size of a send, an int"},
    {"NCCL_IB_PCI_RELAXED_ORDERING", "0", &Settings::relaxed_ordering, 0, "env.rst"},
    {"NCCL_IB_PCI_RELAXED_ORDERING", "1", &Settings::relaxed_ordering, 1, "env.rst"},
    {"NCCL_IB_PCI_RELAXED_ORDERING", "2", &Settings::relaxed_ordering, 2, "env.rst"},
    {"NCCL_IB_ECE_ENABLE", "0", &Settings::ece, 0, "env.rst"},
    {"NCCL_IB_ECE_ENABLE", "1", &Settings::ece, 1, "env.rst"},
    {"NCCL_IB_QPS_PER_CONNECTION", "1", &Settings::qps, 1, "env.rst: 1 to 128"},
    {"NCCL_IB_QPS_PER_CONNECTION", "32", &Settings::qps, 32, "env.rst: 1 to 128"},
    {"NCCL_IB_QPS_PER_CONNECTION", "-1", &Settings::qps, kAuto, "as other settings"},
};

// Values that NCCL accepts and we correct. `member` becomes `expected`, and one warning names the
// variable, the text and the range.
struct NcclCorrection {
  NcclValue value;
  const char* range;
};
inline const std::vector<NcclCorrection> kCorrectedHere = {
    {{"NCCL_IB_QPS_PER_CONNECTION", "128", &Settings::qps, 32, "env.rst: 1 to 128"}, "1..32"},
    {{"NCCL_IB_QPS_PER_CONNECTION", "64", &Settings::qps, 32, "env.rst: 1 to 128"}, "1..32"},
    {{"NCCL_IB_RETRY_CNT", "13", &Settings::retry_count, 7, "misc/param.cc has no range"}, "0..7"},
    {{"NCCL_IB_TIMEOUT", "32", &Settings::timeout, 31, "env.rst: >= 32 is infinite"}, "0..31"},
    {{"NCCL_IB_TIMEOUT", "-3", &Settings::timeout, 0, "misc/param.cc has no range"}, "0..31"},
    {{"NCCL_IB_TC", "256", &Settings::traffic_class, 255, "misc/param.cc has no range"}, "0..255"},
    {{"NCCL_IB_TC", "4x", &Settings::traffic_class, 4, "misc/param.cc: strtoll"}, "0..255"},
    {{"NCCL_IB_TC", "08", &Settings::traffic_class, 0, "misc/param.cc: strtoll"}, "0..255"},
    {{"NCCL_IB_TC", "all", &Settings::traffic_class, kAuto, "misc/param.cc: strtoll"}, "0..255"},
    {{"NCCL_IB_TC", "auto", &Settings::traffic_class, kAuto, "misc/param.cc: strtoll"}, "0..255"},
    {{"NCCL_IB_SL", "16", &Settings::service_level, 15, "misc/param.cc has no range"}, "0..15"},
    {{"NCCL_IB_SL", "99999999999999999999", &Settings::service_level, kAuto,
      "misc/param.cc: the default above 64 bits"},
     "0..15"},
    {{"NCCL_IB_SL", "4294967296", &Settings::service_level, 15, "misc/param.cc has no range"},
     "0..15"},
    {{"NCCL_IB_GID_INDEX", "256", &Settings::gid_index, 255, "misc/param.cc has no range"},
     "0..255"},
    {{"NCCL_IB_PKEY", "65536", &Settings::pkey_index, 65535, "misc/param.cc has no range"},
     "0..65535"},
    {{"NCCL_IB_ROCE_VERSION_NUM", "3", &Settings::roce_version, 2, "misc/param.cc has no range"},
     "1..2"},
    {{"NCCL_IB_ROCE_VERSION_NUM", "0", &Settings::roce_version, 1, "misc/param.cc has no range"},
     "1..2"},
    {{"NCCL_IB_ADAPTIVE_ROUTING", "2", &Settings::adaptive_routing, 1, "init.cc: not 0 is on"},
     "0..1"},
    {{"NCCL_IB_AR_THRESHOLD", "99999999999", &Settings::ar_threshold, INT_MAX,
      "env.rst: above NCCL_BUFFSIZE it disables"},
     "0..2147483647"},
    {{"NCCL_IB_PCI_RELAXED_ORDERING", "3", &Settings::relaxed_ordering, 2,
      "misc/param.cc has no range"},
     "0..2"},
    {{"NCCL_IB_ECE_ENABLE", "2", &Settings::ece, 1, "connect.cc: not 0 is on"}, "0..1"},
};

}  // namespace mesh::testkit
