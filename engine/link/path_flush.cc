#include "engine/link/path_flush.h"

#include "engine/data/channel.h"
#include "engine/data/flusher.h"
#include "engine/data/peer_link.h"
#include "engine/data/registration.h"
#include "src/base/check.h"

#include <new>

namespace mesh::engine {

namespace {
std::vector<Registration*> device_regions(const PeerLink& link) {
  std::vector<Registration*> regions;
  link.channels().for_each([&regions](const Channel& channel) {
    for (const auto& [region, uses] : channel.regions)
      if (region->type == MemoryType::Device) regions.push_back(region);
  });
  return regions;
}
}  // namespace

PathFlush::~PathFlush() {
  for (Flush* const flush : open_) flusher_->abandon(*flush);
}

void PathFlush::begin(Flusher& flusher, const PeerLink& link, std::uint32_t rail) {
  DCHECK(!begun());
  flusher_ = &flusher;
  const std::vector<Registration*> regions = device_regions(link);
  open_.reserve(regions.size());
  for (Registration* const region : regions) {
    const Result<Flush*> started =
        flusher.start({.region = region, .address = region->address}, std::uint64_t{1} << rail);
    if (!started.ok()) throw std::bad_alloc();
    open_.push_back(*started);
  }
}

Errc PathFlush::finish() noexcept {
  Errc failed = Errc::Ok;
  std::erase_if(open_, [this, &failed](Flush* flush) {
    const Errc answer = flusher_->finish(*flush);
    if (answer != Errc::Ok && answer != Errc::WouldBlock) failed = answer;
    return answer != Errc::WouldBlock;
  });
  if (failed != Errc::Ok || open_.empty()) return failed;
  return Errc::WouldBlock;
}

}  // namespace mesh::engine
