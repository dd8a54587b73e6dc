#pragma once
// The data symbols NCCL looks for, newest first. Everything else in the library is hidden.
// Thread: any (constants).

#include "plugin/nccl/net_v12.h"
#include "plugin/nccl/net_v5.h"
#include "plugin/nccl/net_v6.h"
#include "plugin/nccl/net_v7.h"
#include "plugin/nccl/net_v8.h"

extern "C" {
[[gnu::visibility("default")]] extern const ncclNet_v5_t ncclNetPlugin_v5;
[[gnu::visibility("default")]] extern const ncclNet_v6_t ncclNetPlugin_v6;
[[gnu::visibility("default")]] extern const ncclNet_v7_t ncclNetPlugin_v7;
[[gnu::visibility("default")]] extern const ncclNet_v8_t ncclNetPlugin_v8;
[[gnu::visibility("default")]] extern const ncclNet_v9_t ncclNetPlugin_v9;
[[gnu::visibility("default")]] extern const ncclNet_v10_t ncclNetPlugin_v10;
[[gnu::visibility("default")]] extern const ncclNet_v11_t ncclNetPlugin_v11;
[[gnu::visibility("default")]] extern const ncclNet_v12_t ncclNetPlugin_v12;
}
