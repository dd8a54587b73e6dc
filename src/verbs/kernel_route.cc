#include "src/verbs/kernel_route.h"

#include "src/base/unique_fd.h"
#include "src/verbs/gid_choice.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/socket.h>

namespace mesh::verbs {

namespace {

constexpr std::size_t kAnswerBytesMax = 8192;

struct Question {
  nlmsghdr header;
  rtmsg route;
  std::array<std::byte, 64> attributes;
};
static_assert(sizeof(Question) == sizeof(nlmsghdr) + sizeof(rtmsg) + 64);

void add(Question& question, std::uint16_t type, const void* value, std::uint16_t bytes) {
  const std::size_t at = NLMSG_ALIGN(question.header.nlmsg_len);
  const rtattr head{.rta_len = static_cast<std::uint16_t>(RTA_LENGTH(bytes)), .rta_type = type};
  auto* const raw = reinterpret_cast<std::byte*>(&question);
  std::memcpy(raw + at, &head, sizeof head);
  std::memcpy(raw + at + RTA_LENGTH(0), value, bytes);
  question.header.nlmsg_len = static_cast<std::uint32_t>(at + RTA_LENGTH(bytes));
}

// RTM_F_FIB_MATCH makes the kernel answer with the entry of its tables (Linux 4.13). Without it, a
// question that names a device is never answered with "no route" on IPv4: the peer is then taken
// for a neighbour.
Question question_of(const SocketAddress& from, const SocketAddress& to, int oif) {
  Question question{};
  const std::uint16_t bytes = from.family == AF_INET ? 4 : 16;
  question.header = {.nlmsg_len = NLMSG_LENGTH(sizeof(rtmsg)),
                     .nlmsg_type = RTM_GETROUTE,
                     .nlmsg_flags = NLM_F_REQUEST,
                     .nlmsg_seq = 1,
                     .nlmsg_pid = 0};
  question.route.rtm_family = static_cast<unsigned char>(from.family);
  question.route.rtm_src_len = question.route.rtm_dst_len = static_cast<unsigned char>(bytes * 8);
  question.route.rtm_flags = RTM_F_FIB_MATCH;
  add(question, RTA_DST, to.bytes.data(), bytes);
  add(question, RTA_SRC, from.bytes.data(), bytes);
  if (oif != 0) add(question, RTA_OIF, &oif, sizeof oif);
  return question;
}

std::optional<RouteAnswer> ask(const SocketAddress& from, const SocketAddress& to, int oif) {
  const UniqueFd fd(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
  if (!fd.valid()) return std::nullopt;
  const Question question = question_of(from, to, oif);
  if (::send(fd.get(), &question, question.header.nlmsg_len, 0) < 0) return std::nullopt;
  // The kernel has answered when send() returns.
  alignas(nlmsghdr) std::array<std::byte, kAnswerBytesMax> answer;
  const ssize_t bytes = ::recv(fd.get(), answer.data(), answer.size(), MSG_DONTWAIT);
  if (bytes < 0) return std::nullopt;
  return read_route_answer({answer.data(), static_cast<std::size_t>(bytes)}, oif);
}

struct Attribute {
  std::uint16_t type = 0;
  std::span<const std::byte> value;
};

// Takes the first attribute from the front. Returns no value if there is none, or it is malformed.
std::optional<Attribute> take(std::span<const std::byte>& rest) {
  rtattr head{};
  if (rest.size() < sizeof head) return std::nullopt;
  std::memcpy(&head, rest.data(), sizeof head);
  if (head.rta_len < sizeof head || head.rta_len > rest.size()) return std::nullopt;
  const Attribute taken{head.rta_type, rest.subspan(sizeof head, head.rta_len - sizeof head)};
  rest = rest.subspan(std::min<std::size_t>(RTA_ALIGN(head.rta_len), rest.size()));
  return taken;
}

bool one_leaves_by(std::span<const std::byte> hops, int oif) {
  rtnexthop hop{};
  while (hops.size() >= sizeof hop) {
    std::memcpy(&hop, hops.data(), sizeof hop);
    if (hop.rtnh_ifindex == oif) return true;
    if (hop.rtnh_len < sizeof hop || hop.rtnh_len > hops.size()) return false;
    hops = hops.subspan(std::min<std::size_t>(RTNH_ALIGN(hop.rtnh_len), hops.size()));
  }
  return false;
}

}  // namespace

std::optional<RouteAnswer> read_route_answer(std::span<const std::byte> bytes, int oif) {
  nlmsghdr header{};
  RouteAnswer answer;
  if (bytes.size() < NLMSG_HDRLEN) return std::nullopt;
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.nlmsg_len < NLMSG_HDRLEN || header.nlmsg_len > bytes.size()) return std::nullopt;
  std::span<const std::byte> rest = bytes.first(header.nlmsg_len).subspan(NLMSG_HDRLEN);
  if (header.nlmsg_type == NLMSG_ERROR) {
    int code = 0;
    if (rest.size() < sizeof code) return std::nullopt;
    std::memcpy(&code, rest.data(), sizeof code);
    answer.error = code < 0 ? -code : EIO;
    return answer;
  }
  rtmsg route{};
  if (header.nlmsg_type != RTM_NEWROUTE || rest.size() < NLMSG_ALIGN(sizeof route))
    return std::nullopt;
  std::memcpy(&route, rest.data(), sizeof route);
  rest = rest.subspan(NLMSG_ALIGN(sizeof route));
  answer.unicast = route.rtm_type == RTN_UNICAST;
  bool gateway = false, several = false;
  while (const std::optional<Attribute> attribute = take(rest)) {
    if (attribute->type == RTA_OIF && attribute->value.size() == sizeof answer.oif)
      std::memcpy(&answer.oif, attribute->value.data(), sizeof answer.oif);
    gateway |= attribute->type == RTA_GATEWAY || attribute->type == RTA_VIA;
    if (attribute->type == RTA_MULTIPATH) several |= one_leaves_by(attribute->value, oif);
  }
  answer.through_oif = answer.oif == oif || several;
  answer.guessed = (route.rtm_flags & RTM_F_CLONED) != 0 && !gateway;
  return answer;
}

Route kernel_route(const GidEntry& from, const ibv_gid& to) {
  const SocketAddress own = address_of(from.gid), peer = address_of(to);
  const int oif = from.netdev.empty() ? 0 : static_cast<int>(::if_nametoindex(from.netdev.c_str()));
  if (oif == 0 || own.family != peer.family) return {};
  const std::optional<RouteAnswer> by_port = ask(own, peer, oif);
  if (!by_port || by_port->error == EINVAL) return {};  // our address is not there, or unknown
  if (by_port->error == 0 && by_port->unicast && by_port->through_oif && !by_port->guessed)
    return {.kind = RouteKind::ByPort, .netdev = ""};
  const std::optional<RouteAnswer> any = ask(own, peer, 0);
  std::array<char, IF_NAMESIZE> name{};
  const bool elsewhere = any && any->error == 0 && any->unicast && any->oif != 0 &&
                         any->oif != oif &&
                         ::if_indextoname(static_cast<unsigned>(any->oif), name.data()) != nullptr;
  if (elsewhere) return {.kind = RouteKind::Elsewhere, .netdev = name.data()};
  return {.kind = RouteKind::None, .netdev = ""};
}

}  // namespace mesh::verbs
