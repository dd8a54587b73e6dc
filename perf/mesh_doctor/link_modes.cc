// Reads the speed that an Ethernet port could have from the link modes that its driver supports.
#include "perf/mesh_doctor/read_host.h"

#include "src/base/unique_fd.h"

#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace mesh::doctor {
namespace {

struct Modes {
  unsigned first, last;  // bits, as the kernel numbers them
  int mbps;
};

// Newer kernels know more modes. The speed of a port that has only modes of those is not known.
constexpr auto kModes = std::to_array<Modes>({
    {ETHTOOL_LINK_MODE_1000baseT_Half_BIT, ETHTOOL_LINK_MODE_1000baseT_Full_BIT, 1'000},
    {ETHTOOL_LINK_MODE_10000baseT_Full_BIT, ETHTOOL_LINK_MODE_10000baseT_Full_BIT, 10'000},
    {ETHTOOL_LINK_MODE_10000baseKX4_Full_BIT, ETHTOOL_LINK_MODE_10000baseKR_Full_BIT, 10'000},
    {ETHTOOL_LINK_MODE_40000baseKR4_Full_BIT, ETHTOOL_LINK_MODE_40000baseLR4_Full_BIT, 40'000},
    {ETHTOOL_LINK_MODE_25000baseCR_Full_BIT, ETHTOOL_LINK_MODE_25000baseSR_Full_BIT, 25'000},
    {ETHTOOL_LINK_MODE_50000baseCR2_Full_BIT, ETHTOOL_LINK_MODE_50000baseKR2_Full_BIT, 50'000},
    {ETHTOOL_LINK_MODE_100000baseKR4_Full_BIT, ETHTOOL_LINK_MODE_100000baseLR4_ER4_Full_BIT,
     100'000},
    {ETHTOOL_LINK_MODE_50000baseKR_Full_BIT, ETHTOOL_LINK_MODE_50000baseDR_Full_BIT, 50'000},
    {ETHTOOL_LINK_MODE_100000baseKR2_Full_BIT, ETHTOOL_LINK_MODE_100000baseDR2_Full_BIT, 100'000},
    {ETHTOOL_LINK_MODE_200000baseKR4_Full_BIT, ETHTOOL_LINK_MODE_200000baseCR4_Full_BIT, 200'000},
    {ETHTOOL_LINK_MODE_400000baseKR8_Full_BIT, ETHTOOL_LINK_MODE_400000baseCR8_Full_BIT, 400'000},
    {ETHTOOL_LINK_MODE_100000baseKR_Full_BIT, ETHTOOL_LINK_MODE_100000baseDR_Full_BIT, 100'000},
    {ETHTOOL_LINK_MODE_200000baseKR2_Full_BIT, ETHTOOL_LINK_MODE_200000baseCR2_Full_BIT, 200'000},
    {ETHTOOL_LINK_MODE_400000baseKR4_Full_BIT, ETHTOOL_LINK_MODE_400000baseCR4_Full_BIT, 400'000},
});

constexpr std::size_t kWordsMax = 128;  // the kernel's own count is a signed byte

// The kernel's settings, followed by three masks: supported, advertised, and the partner's.
class Request {
 public:
  static constexpr std::size_t kHeadWords = sizeof(ethtool_link_settings) / sizeof(std::uint32_t);

  ethtool_link_settings head() const {
    ethtool_link_settings head{};
    std::memcpy(&head, words_.data(), sizeof(head));
    return head;
  }
  bool ask(int socket, const std::string& netdev, int mask_words) {
    ethtool_link_settings head{};
    head.cmd = ETHTOOL_GLINKSETTINGS;
    head.link_mode_masks_nwords = static_cast<__s8>(mask_words);
    std::memcpy(words_.data(), &head, sizeof(head));
    ifreq about{};
    std::strncpy(about.ifr_name, netdev.c_str(), IFNAMSIZ - 1);
    about.ifr_data = reinterpret_cast<char*>(words_.data());
    return ::ioctl(socket, SIOCETHTOOL, &about) == 0;
  }
  bool supports(unsigned bit) const {
    return (words_[kHeadWords + bit / 32] >> (bit % 32) & 1u) != 0;
  }

 private:
  std::array<std::uint32_t, kHeadWords + 3 * kWordsMax> words_{};
};

}  // namespace

int capable_mbps(const std::string& netdev) {
  const UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  Request request;
  if (!socket.valid() || netdev.size() >= IFNAMSIZ || !request.ask(socket.get(), netdev, 0))
    return -1;
  // The first answer is the number of words, negated.
  const int words = -request.head().link_mode_masks_nwords;
  if (words <= 0 || !request.ask(socket.get(), netdev, words)) return -1;
  int most = -1;
  for (const Modes& modes : kModes) {
    for (unsigned bit = modes.first; bit <= modes.last; ++bit) {
      if (bit / 32 < static_cast<unsigned>(words) && request.supports(bit))
        most = std::max(most, modes.mbps);
    }
  }
  return most;
}

}  // namespace mesh::doctor
