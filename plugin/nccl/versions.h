#pragma once
// All versions of ncclNet that the plugin has. "The newest" in other files means the aliases here.
// Thread: any (types and constants).

#include "plugin/nccl/net_v10.h"
#include "plugin/nccl/net_v11.h"
#include "plugin/nccl/net_v12.h"
#include "plugin/nccl/net_v5.h"
#include "plugin/nccl/net_v6.h"
#include "plugin/nccl/net_v7.h"
#include "plugin/nccl/net_v8.h"
#include "plugin/nccl/net_v9.h"

namespace mesh::nccl {

inline constexpr int kOldestVersion = 5;
inline constexpr int kNewestVersion = 12;

using NewestNet = ncclNet_v12_t;
using NewestProperties = ncclNetProperties_v12_t;
using NewestCommConfig = ncclNetCommConfig_v12_t;

// Describes a version: the type of its table, the type of its properties, and the symbol that NCCL
// looks for. Only the plugin defines the symbol; programs that load it use just the types.
template <int kVersion>
struct Version;

template <typename NetType, typename PropertiesType, const NetType& kTable>
struct VersionOf {
  using Net = NetType;
  using Properties = PropertiesType;
  static const Net& table() noexcept { return kTable; }
};

template <>
struct Version<5> : VersionOf<ncclNet_v5_t, ncclNetProperties_v5_t, ncclNetPlugin_v5> {};
template <>
struct Version<6> : VersionOf<ncclNet_v6_t, ncclNetProperties_v6_t, ncclNetPlugin_v6> {};
template <>
struct Version<7> : VersionOf<ncclNet_v7_t, ncclNetProperties_v7_t, ncclNetPlugin_v7> {};
template <>
struct Version<8> : VersionOf<ncclNet_v8_t, ncclNetProperties_v8_t, ncclNetPlugin_v8> {};
template <>
struct Version<9> : VersionOf<ncclNet_v9_t, ncclNetProperties_v9_t, ncclNetPlugin_v9> {};
template <>
struct Version<10> : VersionOf<ncclNet_v10_t, ncclNetProperties_v10_t, ncclNetPlugin_v10> {};
template <>
struct Version<11> : VersionOf<ncclNet_v11_t, ncclNetProperties_v11_t, ncclNetPlugin_v11> {};
template <>
struct Version<12> : VersionOf<ncclNet_v12_t, ncclNetProperties_v12_t, ncclNetPlugin_v12> {};

}  // namespace mesh::nccl
