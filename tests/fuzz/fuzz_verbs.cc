#include "tests/fuzz/fuzz_verbs.h"

#include "tests/fuzz/quiet_log.h"

namespace mesh::fuzz {
namespace {
// Reads every byte that the device would read.
void touch(std::uint64_t address, std::size_t bytes) {
  volatile unsigned sum = 0;
  const auto* at = reinterpret_cast<const volatile std::uint8_t*>(address);
  for (std::size_t i = 0; i < bytes; i += 61) sum = sum + at[i];  // touches every cache line
  if (bytes != 0) sum = sum + at[bytes - 1];
}

ibv_wc completion_of(std::uint64_t id, ibv_wc_status status, const ibv_qp& qp) {
  ibv_wc completion{};
  completion.wr_id = id;
  completion.status = status;
  completion.qp_num = qp.qp_num;
  return completion;
}
}  // namespace

FuzzVerbs::FuzzVerbs() {
  for (const char* const name : {"n0", "n1"}) {
    verbs::testkit::FakeDevice device;
    device.entry.name = name;
    device.entry.guid = name[1] == '0' ? 1 : 2;
    device.ports.push_back(verbs::testkit::ethernet_port(
        {verbs::testkit::gid_of(3, name[1] == '0' ? "10.0.1.2" : "10.0.2.2")}));
    fakes.push_back(device);
  }
  context_.ops.poll_cq = poll;
  context_.ops.post_send = post_send;
  context_.ops.post_recv = post_receive;
  context_.device = reinterpret_cast<ibv_device*>(this);
}

ibv_mr* FuzzVerbs::reg_mr(ibv_pd*, void* address, std::size_t bytes, int access) {
  auto region = std::make_unique<Region>();
  region->mr.addr = address;
  region->mr.length = bytes;
  region->mr.lkey = region->mr.rkey = ++last_key_;
  region->access = access;
  expect((access & (IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)) == 0,
         "memory that a peer may read");
  return &regions_.emplace(last_key_, std::move(region)).first->second->mr;
}

int FuzzVerbs::dereg_mr(ibv_mr* mr) {
  expect(regions_.erase(mr->lkey) == 1, "a region that does not exist");
  return 0;
}

ibv_cq* FuzzVerbs::create_cq(ibv_context*, int entries) {
  auto queue = std::make_unique<Queue>();
  queue->cq.cqe = entries;
  queue->cq.context = &context_;
  ibv_cq* const cq = &queue->cq;
  queues_.emplace(cq, std::move(queue));
  return cq;
}

int FuzzVerbs::destroy_cq(ibv_cq* cq) {
  for (const auto& [number, pair] : pairs_)
    expect(&pair->queue->cq != cq && &pair->receive_queue->cq != cq, "a completion queue in use");
  expect(queues_.erase(cq) == 1, "a completion queue that does not exist");
  return 0;
}

ibv_qp* FuzzVerbs::create_qp(ibv_pd*, ibv_qp_init_attr* attr) {
  auto pair = std::make_unique<Pair>();
  pair->queue = queues_.at(attr->send_cq).get();
  pair->receive_queue = queues_.at(attr->recv_cq).get();
  pair->qp.context = &context_;
  pair->qp.qp_num = ++last_number_;
  pair->send_max = attr->cap.max_send_wr;
  pair->receive_max = attr->cap.max_recv_wr;
  ibv_qp* const qp = &pair->qp;
  qp->qp_context = pair.get();
  pairs_.emplace(last_number_, std::move(pair));
  return qp;
}

int FuzzVerbs::modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask) {
  Pair& pair = *pairs_.at(qp->qp_num);
  if ((mask & IBV_QP_STATE) != 0 && attr->qp_state == IBV_QPS_ERR) flush(pair);
  return 0;
}

int FuzzVerbs::destroy_qp(ibv_qp* qp) {
  expect(pairs_.erase(qp->qp_num) == 1, "a queue pair that does not exist");
  return 0;
}

bool FuzzVerbs::write(std::uint64_t address, std::uint32_t rkey, const void* bytes,
                      std::size_t size) {
  const auto found = regions_.find(rkey);
  if (found == regions_.end() || (found->second->access & IBV_ACCESS_REMOTE_WRITE) == 0)
    return false;
  const auto begin = reinterpret_cast<std::uint64_t>(found->second->mr.addr);
  const std::uint64_t length = found->second->mr.length;
  if (address < begin || size > length || address - begin > length - size) return false;
  std::memcpy(reinterpret_cast<void*>(address), bytes, size);
  return true;
}

bool FuzzVerbs::write_anywhere(std::uint32_t region, std::uint64_t offset, std::uint64_t word) {
  if (regions_.empty()) return false;
  const ibv_mr& mr = std::next(regions_.begin(), region % regions_.size())->second->mr;
  if (mr.length < sizeof word) return false;
  return write(reinterpret_cast<std::uint64_t>(mr.addr) + offset % (mr.length - sizeof word + 1),
               mr.rkey, &word, sizeof word);
}

FuzzVerbs::Pair* FuzzVerbs::pair_at(std::uint32_t index) {
  return pairs_.empty() ? nullptr : std::next(pairs_.begin(), index % pairs_.size())->second.get();
}

bool FuzzVerbs::announce(std::uint32_t queue_pair, std::uint32_t imm, std::uint32_t bytes) {
  Pair* const pair = pair_at(queue_pair);
  if (pair == nullptr || pair->failed || pair->receives.empty()) return false;
  ibv_wc completion = completion_of(pair->receives.front(), IBV_WC_SUCCESS, pair->qp);
  completion.opcode = IBV_WC_RECV_RDMA_WITH_IMM;
  completion.imm_data = imm;
  completion.byte_len = bytes;
  pair->receives.pop_front();
  pair->receive_queue->ready.push_back(completion);
  return true;
}

void FuzzVerbs::complete(std::uint32_t queue_pair, std::uint32_t count, ibv_wc_status status) {
  Pair* const pair = pair_at(queue_pair);
  if (pair == nullptr || pair->failed) return;
  for (; count != 0 && !pair->sent.empty(); --count) {
    const Pair::Sent sent = pair->sent.front();
    pair->sent.pop_front();
    if (status == IBV_WC_SUCCESS && !sent.signaled) continue;
    ibv_wc completion = completion_of(sent.id, status, pair->qp);
    completion.opcode = IBV_WC_RDMA_WRITE;
    pair->queue->ready.push_back(completion);
    if (status == IBV_WC_SUCCESS) continue;
    flush(*pair);
    return;
  }
}

void FuzzVerbs::flush(Pair& pair) {
  if (pair.failed) return;
  pair.failed = true;
  std::deque<ibv_wc>& ready = pair.queue->ready;
  for (const Pair::Sent& sent : pair.sent)
    ready.push_back(completion_of(sent.id, IBV_WC_WR_FLUSH_ERR, pair.qp));
  for (const std::uint64_t id : pair.receives)
    pair.receive_queue->ready.push_back(completion_of(id, IBV_WC_WR_FLUSH_ERR, pair.qp));
  pair.sent.clear();
  pair.receives.clear();
}

int FuzzVerbs::poll(ibv_cq* cq, int most, ibv_wc* out) {
  auto& self = *reinterpret_cast<FuzzVerbs*>(cq->context->device);
  std::deque<ibv_wc>& ready = self.queues_.at(cq)->ready;
  int count = 0;
  for (; count < most && !ready.empty(); ++count, ready.pop_front()) out[count] = ready.front();
  return count;
}

void FuzzVerbs::check_source(const ibv_send_wr& request) const {
  expect(request.opcode == IBV_WR_RDMA_WRITE || request.opcode == IBV_WR_RDMA_WRITE_WITH_IMM,
         "an operation nobody asked for");
  for (int i = 0; i < request.num_sge; ++i) {
    const ibv_sge& source = request.sg_list[i];
    touch(source.addr, source.length);
    if ((request.send_flags & IBV_SEND_INLINE) != 0) continue;
    const auto region = regions_.find(source.lkey);
    expect(region != regions_.end(), "a send from memory that is not registered");
    const auto begin = reinterpret_cast<std::uint64_t>(region->second->mr.addr);
    const std::uint64_t end = begin + region->second->mr.length;
    expect(source.addr >= begin && source.addr <= end && source.length <= end - source.addr,
           "a send beyond its region");
  }
}

int FuzzVerbs::post_send(ibv_qp* qp, ibv_send_wr* chain, ibv_send_wr** bad) {
  auto& self = *reinterpret_cast<FuzzVerbs*>(qp->context->device);
  Pair& pair = *static_cast<Pair*>(qp->qp_context);
  for (; chain != nullptr; chain = chain->next) {
    self.check_source(*chain);
    if (pair.failed) {
      pair.queue->ready.push_back(completion_of(chain->wr_id, IBV_WC_WR_FLUSH_ERR, pair.qp));
      continue;
    }
    // Room is free again only when a completion says so; the engine must never rely on the device
    // to refuse a post because the queue is full.
    expect(pair.sent.size() < pair.send_max, "more sends than the queue holds");
    pair.sent.push_back(
        {.id = chain->wr_id, .signaled = (chain->send_flags & IBV_SEND_SIGNALED) != 0});
  }
  *bad = nullptr;
  return 0;
}

int FuzzVerbs::post_receive(ibv_qp* qp, ibv_recv_wr* chain, ibv_recv_wr** bad) {
  Pair& pair = *static_cast<Pair*>(qp->qp_context);
  for (; chain != nullptr; chain = chain->next) {
    if (pair.failed) continue;
    if (pair.receives.size() >= pair.receive_max) {
      *bad = chain;
      return ENOMEM;
    }
    pair.receives.push_back(chain->wr_id);
  }
  return 0;
}

}  // namespace mesh::fuzz
