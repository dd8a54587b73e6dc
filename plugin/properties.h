#pragma once
// Fills in what NCCL is told about a rail: every field of every version, because NCCL reads them
// from memory that it never cleared. Thread: any; locks while it copies a name. Bound: each string
// is kept once for the life of the process, because NCCL keeps the pointers beyond finalize.

#include <mesh/engine.h>

#include "plugin/nccl/versions.h"

#include <type_traits>

namespace mesh::plugin {

// NCCL indexes arrays of 128 by device without a check (proxy.h).
inline constexpr int kDevicesMax = 128;

nccl::NewestProperties properties_of(const RailInfo& rail, int device);

// Copies the values into the fields that a version has. The newest version has them all.
template <typename Properties>
Properties properties_as(const nccl::NewestProperties& newest) noexcept {
  if constexpr (std::is_same_v<Properties, nccl::NewestProperties>) return newest;
  Properties p{};
  p.name = newest.name;
  p.pciPath = newest.pciPath;
  p.guid = newest.guid;
  p.ptrSupport = newest.ptrSupport;
  p.speed = newest.speed;
  p.port = newest.port;
  p.latency = newest.latency;
  p.maxComms = newest.maxComms;
  p.maxRecvs = newest.maxRecvs;
  if constexpr (requires { p.netDeviceType; }) {
    p.netDeviceType = newest.netDeviceType;
    p.netDeviceVersion = newest.netDeviceVersion;
  }
  if constexpr (requires { p.regIsGlobal; }) p.regIsGlobal = newest.regIsGlobal;
  if constexpr (requires { p.vProps; }) {
    p.forceFlush = newest.forceFlush;
    p.vProps.ndevs = newest.vProps.ndevs;
    p.vProps.devs[0] = newest.vProps.devs[0];
    p.maxP2pBytes = newest.maxP2pBytes;
    p.maxCollBytes = newest.maxCollBytes;
  }
  if constexpr (requires { p.maxMultiRequestSize; })
    p.maxMultiRequestSize = newest.maxMultiRequestSize;
  if constexpr (requires { p.railId; }) {
    p.railId = newest.railId;
    p.planeId = newest.planeId;
  }
  return p;
}

}  // namespace mesh::plugin
