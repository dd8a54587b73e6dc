#include "perf/driver/net_api.h"

#include "perf/driver/net_adapter.h"
#include "plugin/nccl/net_v10.h"
#include "plugin/nccl/net_v11.h"
#include "plugin/nccl/net_v12.h"
#include "plugin/nccl/net_v5.h"
#include "plugin/nccl/net_v6.h"
#include "plugin/nccl/net_v7.h"
#include "plugin/nccl/net_v8.h"
#include "plugin/nccl/net_v9.h"

#include <dlfcn.h>

namespace mesh::driver {
namespace {

template <int kVersion, typename Net, typename Properties>
std::unique_ptr<NetApi> adapt(Library library, const void* table) {
  return std::make_unique<NetAdapter<kVersion, Net, Properties>>(std::move(library),
                                                                 *static_cast<const Net*>(table));
}

std::unique_ptr<NetApi> adapt_version(int version, Library library, const void* table) {
  switch (version) {
    case 5: return adapt<5, ncclNet_v5_t, ncclNetProperties_v5_t>(std::move(library), table);
    case 6: return adapt<6, ncclNet_v6_t, ncclNetProperties_v6_t>(std::move(library), table);
    case 7: return adapt<7, ncclNet_v7_t, ncclNetProperties_v7_t>(std::move(library), table);
    case 8: return adapt<8, ncclNet_v8_t, ncclNetProperties_v8_t>(std::move(library), table);
    case 9: return adapt<9, ncclNet_v9_t, ncclNetProperties_v9_t>(std::move(library), table);
    case 10: return adapt<10, ncclNet_v10_t, ncclNetProperties_v10_t>(std::move(library), table);
    case 11: return adapt<11, ncclNet_v11_t, ncclNetProperties_v11_t>(std::move(library), table);
    case 12: return adapt<12, ncclNet_v12_t, ncclNetProperties_v12_t>(std::move(library), table);
    default: return nullptr;
  }
}

}  // namespace

Library::~Library() {
  if (handle_ != nullptr) ::dlclose(handle_);
}

void* Library::symbol(const char* name) const noexcept { return ::dlsym(handle_, name); }

const char* net_result_name(int result) noexcept {
  switch (result) {
    case kDriverTimeout: return "driver timeout";
    case 0: return "ncclSuccess";
    case 1: return "ncclUnhandledCudaError";
    case 2: return "ncclSystemError";
    case 3: return "ncclInternalError";
    case 4: return "ncclInvalidArgument";
    case 5: return "ncclInvalidUsage";
    case 6: return "ncclRemoteError";
    case 7: return "ncclInProgress";
    default: return "unknown result";
  }
}

std::unique_ptr<NetApi> NetApi::load(const std::string& path, int version, std::string& error) {
  if (version < kNetVersionMin || version > kNetVersionMax) {
    error = "ncclNet version " + std::to_string(version) + " is outside 5..12";
    return nullptr;
  }
  void* handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    error = ::dlerror();
    return nullptr;
  }
  Library library(handle);
  const std::string symbol = "ncclNetPlugin_v" + std::to_string(version);
  const void* table = library.symbol(symbol.c_str());
  if (table == nullptr) {
    error = path + " has no symbol " + symbol;
    return nullptr;
  }
  return adapt_version(version, std::move(library), table);
}

}  // namespace mesh::driver
