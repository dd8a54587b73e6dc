#include "perf/mesh_doctor/kernel_network.h"

#include "src/base/unique_fd.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <optional>

#include <arpa/inet.h>
#include <linux/dcbnl.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/socket.h>

namespace mesh::doctor {
namespace {

using Bytes = std::span<const std::byte>;

constexpr std::size_t kAnswerBytesMax = std::size_t{32} << 10;
constexpr int kAnswersMax = 64;
constexpr int kKbpsPerMbps = 1000;

struct Attribute {
  std::uint16_t type = 0;
  Bytes value;
};

// Takes the first attribute from the front. Returns nothing if there is none, or it is malformed.
std::optional<Attribute> take(Bytes& rest) {
  nlattr head{};
  if (rest.size() < sizeof head) return std::nullopt;
  std::memcpy(&head, rest.data(), sizeof head);
  if (head.nla_len < sizeof head || head.nla_len > rest.size()) return std::nullopt;
  const Attribute taken{static_cast<std::uint16_t>(head.nla_type & NLA_TYPE_MASK),
                        rest.subspan(sizeof head, head.nla_len - sizeof head)};
  rest = rest.subspan(std::min<std::size_t>(NLA_ALIGN(head.nla_len), rest.size()));
  return taken;
}

// Returns the value of the first attribute of this type; empty if there is none.
Bytes find(Bytes attributes, int type) {
  while (const std::optional<Attribute> each = take(attributes)) {
    if (each->type == type) return each->value;
  }
  return {};
}

template <typename Value>
std::optional<Value> value_of(Bytes bytes) {
  if (bytes.size() < sizeof(Value)) return std::nullopt;
  Value value{};
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

// Calls `visit` with the type and the content of each message.
template <typename Visit>
void for_each_message(Bytes answer, Visit&& visit) {
  while (const auto header = value_of<nlmsghdr>(answer)) {
    if (header->nlmsg_len < NLMSG_HDRLEN || header->nlmsg_len > answer.size()) return;
    visit(header->nlmsg_type, answer.first(header->nlmsg_len).subspan(NLMSG_HDRLEN));
    answer = answer.subspan(std::min<std::size_t>(NLMSG_ALIGN(header->nlmsg_len), answer.size()));
  }
}

nlmsghdr header_of(std::uint32_t bytes, std::uint16_t type, std::uint16_t flags) {
  return {
      .nlmsg_len = bytes, .nlmsg_type = type, .nlmsg_flags = flags, .nlmsg_seq = 1, .nlmsg_pid = 0};
}

// A socket that asks one question.
class Question {
 public:
  Question(int protocol, const void* message, std::uint32_t bytes)
      : fd_(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol)) {
    asked_ = fd_.valid() && ::send(fd_.get(), message, bytes, 0) == static_cast<ssize_t>(bytes);
  }
  // The kernel has answered when send() returns. Returns nothing after the last answer.
  Bytes next() {
    if (!asked_) return {};
    const ssize_t bytes = ::recv(fd_.get(), answer_.data(), answer_.size(), MSG_DONTWAIT);
    return bytes > 0 ? Bytes(answer_).first(static_cast<std::size_t>(bytes)) : Bytes();
  }

 private:
  UniqueFd fd_;
  bool asked_ = false;
  alignas(nlmsghdr) std::array<std::byte, kAnswerBytesMax> answer_;
};

void read_limits(Bytes ieee, TrafficClasses& classes) {
  const auto limits = value_of<ieee_maxrate>(find(ieee, DCB_ATTR_IEEE_MAXRATE));
  if (!limits) return;
  for (const std::uint64_t kbps : limits->tc_maxrate)
    classes.limit_mbps.push_back(static_cast<int>(kbps / kKbpsPerMbps));
}

void read_priorities(Bytes ieee, TrafficClasses& classes) {
  const auto ets = value_of<ieee_ets>(find(ieee, DCB_ATTR_IEEE_ETS));
  if (!ets) return;
  for (const std::uint8_t of_priority : ets->prio_tc) classes.of_priority.push_back(of_priority);
}

// A port that trusts the DSCP of packets has an entry for each value.
void read_dscps(Bytes ieee, TrafficClasses& classes) {
  Bytes table = find(ieee, DCB_ATTR_IEEE_APP_TABLE);
  while (const std::optional<Attribute> each = take(table)) {
    const auto entry = value_of<dcb_app>(each->value);
    if (each->type != DCB_ATTR_IEEE_APP || !entry) continue;
    if (entry->selector == IEEE_8021QAZ_APP_SEL_DSCP)
      classes.priority_of_dscp[entry->protocol] = entry->priority;
  }
}

}  // namespace

TrafficClasses traffic_classes_from(Bytes answer) {
  TrafficClasses classes;
  for_each_message(answer, [&classes](std::uint16_t type, Bytes content) {
    constexpr std::size_t kHead = NLMSG_ALIGN(sizeof(dcbmsg));
    if (type == NLMSG_ERROR || content.size() < kHead) return;
    const Bytes ieee = find(content.subspan(kHead), DCB_ATTR_IEEE);
    read_limits(ieee, classes);
    read_priorities(ieee, classes);
    read_dscps(ieee, classes);
  });
  return classes;
}

TrafficClasses traffic_classes(const std::string& netdev) {
  struct {
    nlmsghdr header{};
    dcbmsg dcb{};
    nlattr name{};
    std::array<char, IFNAMSIZ> text{};
  } message;
  if (netdev.empty() || netdev.size() >= IFNAMSIZ) return {};
  message.header = header_of(sizeof message, RTM_GETDCB, NLM_F_REQUEST);
  message.dcb = {.dcb_family = AF_UNSPEC, .cmd = DCB_CMD_IEEE_GET, .dcb_pad = 0};
  message.name = {.nla_len = sizeof(nlattr) + IFNAMSIZ, .nla_type = DCB_ATTR_IFNAME};
  netdev.copy(message.text.data(), netdev.size());
  Question question(NETLINK_ROUTE, &message, sizeof message);
  return traffic_classes_from(question.next());
}

std::string forward_policy_from(Bytes answer) {
  bool drops = false;
  for_each_message(answer, [&drops](std::uint16_t type, Bytes content) {
    constexpr std::size_t kHead = NLMSG_ALIGN(sizeof(nfgenmsg));
    if (type != (NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_NEWCHAIN) || content.size() < kHead) return;
    const auto family = static_cast<int>(content.front());
    const Bytes chain = content.subspan(kHead);
    const auto hook =
        value_of<std::uint32_t>(find(find(chain, NFTA_CHAIN_HOOK), NFTA_HOOK_HOOKNUM));
    const auto policy = value_of<std::uint32_t>(find(chain, NFTA_CHAIN_POLICY));
    const bool forwards = hook && ntohl(*hook) == NF_INET_FORWARD &&
                          (family == NFPROTO_IPV4 || family == NFPROTO_INET);
    drops |= forwards && policy && ntohl(*policy) == NF_DROP;
  });
  return drops ? "drop" : "";
}

std::string forward_policy() {
  struct {
    nlmsghdr header{};
    nfgenmsg netfilter{};
  } message;
  message.header = header_of(sizeof message, NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_GETCHAIN,
                             NLM_F_REQUEST | NLM_F_DUMP);
  message.netfilter = {.nfgen_family = NFPROTO_UNSPEC, .version = NFNETLINK_V0, .res_id = 0};
  Question question(NETLINK_NETFILTER, &message, sizeof message);
  bool done = false, refused = false;
  for (int i = 0; i < kAnswersMax && !done && !refused; ++i) {
    const Bytes answer = question.next();
    if (answer.empty()) return {};
    if (std::string policy = forward_policy_from(answer); !policy.empty()) return policy;
    for_each_message(answer, [&](std::uint16_t type, Bytes) {
      done |= type == NLMSG_DONE;
      refused |= type == NLMSG_ERROR;
    });
  }
  return done ? "accept" : "";
}

}  // namespace mesh::doctor
