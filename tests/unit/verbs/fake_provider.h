#pragma once
// A provider whose devices, ports and GIDs are lists that a test fills in. It counts open objects.
// Its data path takes every work request and completes none, unless a test changes `data_path`.
// Thread: one.

#include "src/base/socket.h"
#include "src/verbs/provider.h"
#include "tests/standard.h"

namespace mesh::verbs::testkit {

struct FakePort {
  ibv_port_attr attr{};
  std::vector<GidEntry> gids;
  std::vector<std::uint16_t> pkeys{0xffff};
  std::uint32_t whole_speed_mbps = 0;
};
struct FakeDevice {
  DeviceEntry entry;
  std::vector<FakePort> ports;
  bool opens = true;
};

class FakeProvider : public PlainProvider {
 public:
  FakeProvider() {
    data_path.ops.poll_cq = [](ibv_cq*, int, ibv_wc*) { return 0; };
    data_path.ops.post_send = [](ibv_qp*, ibv_send_wr*, ibv_send_wr**) { return 0; };
    data_path.ops.post_recv = [](ibv_qp*, ibv_recv_wr*, ibv_recv_wr**) { return 0; };
  }

  std::vector<FakeDevice> fakes;
  std::vector<std::string> opened;  // names, in the order of opening
  int open_now = 0;
  int destroyed = 0;
  int destroy_answer = 0;
  std::uint32_t inline_bytes_max = 1024;
  int qp_wr_max = 32768, cqe_max = 4194303, sge_max = 30;  // what the device says of itself
  std::uint32_t depth_max = 32768;                         // what it takes in fact
  int entries_max = 4194303;
  // The most that it grants, without an error.
  ibv_qp_cap grants{UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX};
  int pd_error = 0, cq_error = 0, qp_error = 0;  // errno's value for every call; 0: it succeeds
  std::vector<ibv_qp_cap> asked;                 // for queue pairs
  ibv_context data_path{};                       // of its queue pairs and completion queues

  const char* fabric() const noexcept override { return "fake"; }
  std::string host_name() const override { return "host-a"; }
  std::vector<DeviceEntry> devices() override {
    std::vector<DeviceEntry> entries;
    for (const FakeDevice& fake : fakes) entries.push_back(fake.entry);
    return entries;
  }
  ibv_context* open_device(const std::string& name) override {
    for (const FakeDevice& fake : fakes) {
      if (fake.entry.name != name) continue;
      if (!fake.opens) break;
      opened.push_back(name);
      ++open_now;
      auto context = std::make_unique<ibv_context>();
      ibv_context* const raw = context.get();
      owners_[raw] = {std::move(context), &fake};
      return raw;
    }
    errno = EACCES;
    return nullptr;
  }
  int close_device(ibv_context* context) override {
    owners_.erase(context);
    --open_now;
    return 0;
  }
  int query_device(ibv_context* context, ibv_device_attr* attr) override {
    *attr = {};
    attr->phys_port_cnt = static_cast<std::uint8_t>(owners_.at(context).device->ports.size());
    attr->max_cqe = cqe_max;
    attr->max_qp_wr = qp_wr_max;
    attr->max_sge = sge_max;
    return 0;
  }
  int query_port(ibv_context* context, std::uint8_t port, ibv_port_attr* attr) override {
    *attr = owners_.at(context).device->ports.at(port - 1u).attr;
    return 0;
  }
  std::vector<GidEntry> gids(ibv_context* context, std::uint8_t port) override {
    return owners_.at(context).device->ports.at(port - 1u).gids;
  }

  int query_pkey(ibv_context* context, std::uint8_t port, int index, std::uint16_t* pkey) override {
    const auto& pkeys = owners_.at(context).device->ports.at(port - 1u).pkeys;
    if (static_cast<std::size_t>(index) >= pkeys.size()) return EINVAL;
    *pkey = pkeys[static_cast<std::size_t>(index)];
    return 0;
  }
  std::uint32_t port_speed_mbps(ibv_context* context, std::uint8_t port) override {
    return owners_.at(context).device->ports.at(port - 1u).whole_speed_mbps;
  }
  int event_fd(ibv_context*) const noexcept override { return -1; }
  bool next_event(ibv_context*, DeviceEvent*) override { return false; }
  ibv_pd* alloc_pd(ibv_context*) override {
    if (pd_error != 0) return errno = pd_error, nullptr;
    return &pd_;
  }
  int dealloc_pd(ibv_pd*) override { return destroy(); }
  ibv_mr* reg_mr(ibv_pd*, void*, std::size_t, int) override { return &mr_; }
  int dereg_mr(ibv_mr*) override { return destroy(); }
  ibv_cq* create_cq(ibv_context*, int entries) override {
    if (cq_error != 0) return errno = cq_error, nullptr;
    if (entries > entries_max) return errno = EINVAL, nullptr;
    return cq_.context = &data_path, &cq_;
  }
  int destroy_cq(ibv_cq*) override { return destroy(); }
  ibv_qp* create_qp(ibv_pd*, ibv_qp_init_attr* attr) override {
    if (attr == nullptr) return qp_.context = &data_path, &qp_;
    ibv_qp_cap& cap = attr->cap;
    asked.push_back(cap);
    if (qp_error != 0) return errno = qp_error, nullptr;
    if (cap.max_inline_data > inline_bytes_max || cap.max_send_wr > depth_max ||
        cap.max_recv_wr > depth_max)
      return errno = EINVAL, nullptr;
    cap.max_send_wr = std::min(cap.max_send_wr, grants.max_send_wr);
    cap.max_recv_wr = std::min(cap.max_recv_wr, grants.max_recv_wr);
    cap.max_send_sge = std::min(cap.max_send_sge, grants.max_send_sge);
    cap.max_recv_sge = std::min(cap.max_recv_sge, grants.max_recv_sge);
    cap.max_inline_data = std::min(cap.max_inline_data, grants.max_inline_data);
    return qp_.context = &data_path, &qp_;
  }
  int modify_qp(ibv_qp*, ibv_qp_attr*, int) override { return 0; }
  int destroy_qp(ibv_qp*) override { return destroy(); }

 private:
  int destroy() {
    ++destroyed;
    return destroy_answer;
  }

  struct Opened {
    std::unique_ptr<ibv_context> context;
    const FakeDevice* device = nullptr;
  };

  std::map<const ibv_context*, Opened> owners_;
  ibv_pd pd_{};
  ibv_mr mr_{};
  ibv_cq cq_{};
  ibv_qp qp_{};
};

inline ibv_gid gid_bytes(const std::string& text) {
  const SocketAddress address = *SocketAddress::from_text(text);
  ibv_gid gid{};
  if (address.family == AF_INET) {
    gid.raw[10] = gid.raw[11] = 0xff;
    std::copy_n(address.bytes.begin(), 4, gid.raw + 12);
  } else {
    std::copy(address.bytes.begin(), address.bytes.end(), gid.raw);
  }
  return gid;
}

inline GidEntry gid_of(int index, const std::string& text, GidType type = GidType::RoceV2) {
  GidEntry entry;
  entry.gid = gid_bytes(text);
  entry.type = type;
  entry.index = index;
  return entry;
}

inline FakePort ethernet_port(std::vector<GidEntry> gids) {
  FakePort port;
  port.attr.state = IBV_PORT_ACTIVE;
  port.attr.active_mtu = IBV_MTU_4096;
  port.attr.link_layer = IBV_LINK_LAYER_ETHERNET;
  port.attr.active_speed = 32;
  port.attr.active_width = 2;
  port.gids = std::move(gids);
  return port;
}

inline FakeDevice device(const std::string& name, std::vector<FakePort> ports) {
  FakeDevice fake;
  fake.entry.name = name;
  fake.entry.guid = 0x1000;
  fake.ports = std::move(ports);
  return fake;
}

// Makes mlx5_0 with one port and mlx5_1 with two.
inline FakeProvider two_devices() {
  FakeProvider provider;
  provider.fakes.push_back(device("mlx5_1", {ethernet_port({gid_of(3, "10.0.13.1")}),
                                             ethernet_port({gid_of(3, "10.0.14.1")})}));
  provider.fakes.push_back(device("mlx5_0", {ethernet_port({gid_of(3, "10.0.12.1")})}));
  return provider;
}

}  // namespace mesh::verbs::testkit
