#include "src/verbs/discovery.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <string>
#include <tuple>
#include <utility>

namespace mesh::verbs {

namespace {
// Returns a key by which "mlx5_2" comes before "mlx5_10".
std::tuple<std::string, std::size_t, std::string> name_order(const std::string& name) {
  const std::size_t last = name.find_last_not_of("0123456789");
  const std::size_t digits = last == std::string::npos ? 0 : last + 1;
  return {name.substr(0, digits), name.size() - digits, name};
}
}  // namespace

std::vector<std::uint16_t> device_places(std::span<const DeviceEntry> devices) {
  std::vector<std::size_t> order(devices.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  // The last part of the path is the PCI address. Devices without one come first.
  const auto key = [&](std::size_t i) {
    const std::string& path = devices[i].pci_path;
    const std::size_t slash = path.rfind('/');
    return std::pair(slash == std::string::npos ? path : path.substr(slash + 1),
                     name_order(devices[i].name));
  };
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return key(a) < key(b); });
  std::vector<std::uint16_t> places(devices.size());
  for (std::size_t place = 0; place < order.size(); ++place)
    places[order[place]] = static_cast<std::uint16_t>(std::min<std::size_t>(place, UINT16_MAX));
  return places;
}

}  // namespace mesh::verbs
