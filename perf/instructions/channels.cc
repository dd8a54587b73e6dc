#include "perf/instructions/channels.h"

#include <malloc.h>
#include <sched.h>
#include <algorithm>
#include <chrono>
#include <memory>

namespace mesh::instructions {
namespace {

constexpr std::chrono::seconds kConnectLimit{60};
constexpr std::size_t kBufferAlign = 4096;

// Returns an empty text for a call that went well.
std::string failure(const char* call, int result) {
  if (result == driver::kNetSuccess) return {};
  return std::string(call) + ": " + driver::net_result_name(result);
}

}  // namespace

std::size_t allocated_bytes() {
  const struct mallinfo2 info = ::mallinfo2();
  return info.uordblks + info.hblkhd;
}

std::string Channels::open(const ChannelsOptions& options) {
  options_ = options;
  stride_ =
      (std::max<std::size_t>(options.bytes, 1) + kBufferAlign - 1) / kBufferAlign * kBufferAlign;
  senders_.resize(options.channels);
  receivers_.resize(options.channels);
  memory_.resize(stride_ * 2 * options.channels + kBufferAlign, 'm');
  std::string error = failure("init", api_.init(1, &sending_));
  const bool two = options.contexts == Contexts::Two;
  if (error.empty() && two) error = failure("init", api_.init(2, &receiving_));
  if (!two) receiving_ = sending_;
  int devices = 0;
  if (error.empty()) error = failure("devices", api_.devices(&devices));
  if (!error.empty()) return error;
  if (devices == 0) return "the fabric has no device";
  std::size_t before = 0;
  for (std::size_t i = 0; i < options.channels; ++i) {
    if (i == 1) before = allocated_bytes();
    error = connect_one(i);
    if (error.empty()) error = register_end(senders_[i], 2 * i);
    if (error.empty()) error = register_end(receivers_[i], 2 * i + 1);
    if (!error.empty()) return error;
  }
  if (options.channels > 1) grown_bytes_ = allocated_bytes() - before;
  return {};
}

std::string Channels::connect_one(std::size_t index) {
  driver::NetHandle handle{};
  void* listening = nullptr;
  std::string error = failure("listen", api_.listen(receiving_, 0, handle.data(), &listening));
  if (!error.empty()) return error;
  const auto limit = std::chrono::steady_clock::now() + kConnectLimit;
  void*& sender = senders_[index].comm;
  void*& receiver = receivers_[index].comm;
  while (error.empty() && (sender == nullptr || receiver == nullptr)) {
    if (sender == nullptr)
      error = failure("connect", api_.connect(sending_, 0, handle.data(), &sender));
    if (error.empty() && receiver == nullptr)
      error = failure("accept", api_.accept(listening, &receiver));
    if (std::chrono::steady_clock::now() > limit) error = "no connection within a minute";
    ::sched_yield();
  }
  api_.close_listen(listening);
  return error;
}

std::string Channels::register_end(End& end, std::size_t place) {
  void* begin = memory_.data();
  std::size_t bytes = memory_.size();
  end.data = static_cast<char*>(std::align(kBufferAlign, 1, begin, bytes)) + place * stride_;
  const int result =
      api_.reg_mr(end.comm,
                  {end.data, std::max<std::size_t>(options_.bytes, 1),
                   options_.memory == Memory::Device ? NCCL_PTR_CUDA : NCCL_PTR_HOST},
                  &end.mhandle);
  return failure("regMr", result);
}

void Channels::close() {
  for (std::size_t i = 0; i < senders_.size(); ++i) {
    if (senders_[i].mhandle != nullptr) api_.dereg_mr(senders_[i].comm, senders_[i].mhandle);
    if (receivers_[i].mhandle != nullptr) api_.dereg_mr(receivers_[i].comm, receivers_[i].mhandle);
    if (senders_[i].comm != nullptr) api_.close_send(senders_[i].comm);
    if (receivers_[i].comm != nullptr) api_.close_recv(receivers_[i].comm);
  }
  senders_.clear();
  receivers_.clear();
  if (receiving_ != nullptr && receiving_ != sending_) api_.finalize(receiving_);
  if (sending_ != nullptr) api_.finalize(sending_);
  receiving_ = sending_ = nullptr;
}

}  // namespace mesh::instructions
