#include "src/soft/soft_provider.h"

#include "src/base/log.h"
#include "src/soft/soft_host.h"

namespace mesh::soft {

Result<std::unique_ptr<SoftProvider>> SoftProvider::open(SoftOptions options) {
  const std::vector<HostSpec>& hosts = options.fabric.hosts;
  if (options.fabric.null) {
    LOG_WARN("soft fabric {}: a null fabric, which moves no data", options.fabric.name);
    return Errc::InvalidArgument;
  }
  if (!options.host.empty() && options.fabric.find_host(options.host) < 0) {
    LOG_WARN("soft fabric {}: host {} is not one of its {} hosts", options.fabric.name,
             options.host, hosts.size());
    return Errc::NotFound;
  }
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    if (!options.host.empty() && hosts[i].name != options.host) continue;
    auto host = std::make_unique<SoftHost>(options);
    const Status status = host->start(static_cast<int>(i), options.host.empty());
    if (status.ok()) return std::unique_ptr<SoftProvider>(std::move(host));
    if (status != Errc::Exhausted) return status;
  }
  if (options.host.empty()) {
    LOG_WARN("soft fabric {}: all hosts are claimed by others", options.fabric.name);
  } else {
    LOG_WARN("soft fabric {}: host {} has no place for a process: {} at most", options.fabric.name,
             options.host, kSlotsMax);
  }
  return Errc::Exhausted;
}

}  // namespace mesh::soft
