#include "src/relay/count_words.h"

#include "src/base/check.h"

#include <atomic>

namespace mesh::relay {

namespace {
// Loads with acquire, which pairs with the NIC's release of a word.
std::uint64_t load(std::uint64_t& word) noexcept {
  return std::atomic_ref(word).load(std::memory_order_acquire);
}
}  // namespace

bool CountLook::finds_news(CountLine& line) noexcept {
  std::uint64_t differs = 0;
  for (std::uint32_t i = 0; i <= kLastWord; ++i) {
    const std::uint64_t word = load(line.words[i]);
    differs |= word ^ seen_.words[i];
    seen_.words[i] = word;
  }
  return differs != 0;
}

Counts read_counts(CountLine& line, const KnownCounts& known) noexcept {
  Counts newest = unpack(pack({.free = static_cast<std::uint32_t>(known.free),
                               .done = static_cast<std::uint32_t>(known.done)}));
  for (std::uint32_t i = 0; i <= kLastWord; ++i) {
    const std::uint64_t word = load(line.words[i]);
    // A word of zero is a count, too, when the low bits come round. A word that was never written
    // is old by then, as words are written in turn. Only the last word is written at the end alone.
    if (i == kLastWord && word == 0) continue;
    const Counts counts = unpack(word);
    if (ahead(counts.free, newest.free) > 0) newest.free = counts.free;
    if (ahead(counts.done, newest.done) > 0) newest.done = counts.done;
    if (counts.status != 0) newest.status = counts.status;
  }
  return newest;
}

ibv_wc_status told_status(const Counts& counts) noexcept {
  DCHECK(counts.status != 0);
  return counts.status <= IBV_WC_GENERAL_ERR ? static_cast<ibv_wc_status>(counts.status)
                                             : IBV_WC_RETRY_EXC_ERR;
}

int CountWriter::write(const Counts& counts) noexcept {
  DCHECK(ready());
  const std::uint32_t word = next_;
  next_ = (next_ + 1) % kCountWords;
  return post(word, counts);
}

int CountWriter::write_last(const Counts& counts) noexcept {
  DCHECK(counts.status != 0 && last_is_written());
  return post(kLastWord, counts);
}

int CountWriter::post(std::uint32_t word, const Counts& counts) noexcept {
  std::uint64_t& source = setup_.source->words[word];
  source = pack(counts);
  ibv_sge gather{.addr = reinterpret_cast<std::uintptr_t>(&source),
                 .length = sizeof source,
                 .lkey = setup_.lkey};
  ibv_send_wr wr{};
  wr.wr_id = setup_.id_base + word;
  wr.sg_list = &gather;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_RDMA_WRITE;
  wr.send_flags = IBV_SEND_SIGNALED;
  if (sizeof source <= setup_.inline_bytes) wr.send_flags |= IBV_SEND_INLINE;
  wr.wr.rdma.remote_addr = target_.address + word * sizeof source;
  wr.wr.rdma.rkey = target_.rkey;
  ibv_send_wr* bad = nullptr;
  const int error = ibv_post_send(setup_.qp, &wr, &bad);
  if (error == 0) busy_ |= 1u << word;
  return error;
}

}  // namespace mesh::relay
