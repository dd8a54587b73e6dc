// The driver with a loop-back plugin that works, and with each fault that the driver must notice.
#include "perf/driver/buffer.h"
#include "perf/driver/communicator.h"
#include "perf/driver/pattern.h"
#include "perf/driver/pipe.h"
#include "perf/driver/plugin_log.h"
#include "tests/prelude.h"
#include "tests/unit/perf/fake_plugin.h"
#include "tests/unit/perf/patience.h"

namespace mesh::driver {
namespace {

using fake::Fault;

constexpr milliseconds kShort{200};
constexpr std::size_t kBytes = 4096;

class DriverTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string error;
    api_ = NetApi::load(MESH_FAKE_PLUGIN, 12, error);
    ASSERT_NE(api_, nullptr) << error;
    communicator_ = std::make_unique<Communicator>(*api_, CommunicatorOptions{.id = 1});
    ASSERT_EQ(communicator_->open(), kNetSuccess);
    connect();
  }

  void TearDown() override {
    plant(Fault::None);
    if (communicator_ == nullptr) return;
    communicator_->progress().stop();
    communicator_->close_send(send_comm_);
    communicator_->close_recv(recv_comm_);
    EXPECT_EQ(communicator_->close(), kNetSuccess);
  }

  void connect() {
    Listening listening;
    ASSERT_EQ(communicator_->listen(listening), kNetSuccess);
    auto accepting = communicator_->start_accept(listening.comm, kPatience);
    auto connecting = communicator_->start_connect(listening.handle, kPatience);
    const CommOutcome sender = connecting.get();
    const CommOutcome receiver = accepting.get();
    ASSERT_EQ(sender.result, kNetSuccess);
    ASSERT_EQ(receiver.result, kNetSuccess);
    send_comm_ = sender.comm;
    recv_comm_ = receiver.comm;
  }

  void plant(Fault fault) {
    void* library = ::dlopen(MESH_FAKE_PLUGIN, RTLD_NOW);
    ASSERT_NE(library, nullptr);
    reinterpret_cast<fake::PlantFunction>(::dlsym(library, fake::kPlantSymbol))(
        static_cast<int>(fault));
    ::dlclose(library);
  }

  // Moves messages of kBytes, each within `patience`. Returns the number of wrong bytes, or minus
  // the driver's error.
  long move(int messages, milliseconds patience = kPatience) {
    Pipe sender(*api_, {.side = Side::Send, .comm = send_comm_});
    Pipe receiver(*api_, {.side = Side::Recv, .comm = recv_comm_});
    ProgressThread& progress = communicator_->progress();
    progress.attach(sender);
    progress.attach(receiver);
    long wrong = 0;
    for (int i = 0; i < messages && wrong == 0; ++i)
      wrong += move_one(sender, receiver, {i, patience});
    progress.detach(sender);
    progress.detach(receiver);
    return wrong;
  }

  struct Move {
    int number;
    milliseconds patience;
  };
  long move_one(Pipe& sender, Pipe& receiver, const Move& what) {
    const PatternKey key{1, 0, static_cast<std::uint64_t>(what.number)};
    fill_pattern(key, from_.data(), kBytes);
    receiver.push({to_.data(), kBytes + 64});
    sender.push({from_.data(), kBytes});
    const int result = communicator_->progress().wait_idle(what.patience);
    if (result != kNetSuccess) return -std::abs(result);
    if (receiver.bytes_of(receiver.completed() - 1) != kBytes) return 1;
    return static_cast<long>(check_pattern(key, to_.data(), kBytes).wrong_bytes);
  }

  std::unique_ptr<NetApi> api_;
  std::unique_ptr<Communicator> communicator_;
  Buffer from_{kBytes}, to_{kBytes + 64};
  void* send_comm_ = nullptr;
  void* recv_comm_ = nullptr;
};

TEST_F(DriverTest, MovesMessagesWhole) { EXPECT_EQ(move(100), 0); }

TEST_F(DriverTest, FindsWrongBytesAndSizes) {
  for (const Fault fault : {Fault::ShiftByOne, Fault::Truncate}) {
    plant(fault);
    EXPECT_GT(move(1), 0);
  }
}

TEST_F(DriverTest, FindsADroppedCompletion) {
  plant(Fault::DropCompletion);
  EXPECT_EQ(move(1, kShort), -1);
}

TEST_F(DriverTest, OneErrorEndsTheProgressThread) {
  plant(Fault::FailTest);
  EXPECT_EQ(move(1), -kNetRemoteError);
  EXPECT_EQ(communicator_->progress().error(), kNetRemoteError);
}

TEST_F(DriverTest, ThirtyTwoOpenThenNullAndLaterAll) {
  Pipe sender(*api_, {.side = Side::Send, .comm = send_comm_, .depth = 48});
  for (int i = 0; i < 48; ++i) ASSERT_TRUE(sender.push({from_.data(), 8}));
  EXPECT_FALSE(sender.push({from_.data(), 8})) << "its depth";
  for (int i = 0; i < 100; ++i) sender.turn();  // the fake holds 32 and returns NULL for the rest
  Pipe receiver(*api_, {.side = Side::Recv, .comm = recv_comm_, .depth = 48});
  for (int i = 0; i < 48; ++i) ASSERT_TRUE(receiver.push({to_.data(), 8}));
  communicator_->progress().attach(sender);
  communicator_->progress().attach(receiver);
  EXPECT_EQ(communicator_->progress().wait_idle(kPatience), kNetSuccess);
  EXPECT_EQ(receiver.completed(), 48u);
  communicator_->progress().detach(sender);
  communicator_->progress().detach(receiver);
}

TEST_F(DriverTest, KeepsThePluginsLines) {
  EXPECT_TRUE(PluginLog::instance().contains("fake plugin 12 ready"));
}

TEST_F(DriverTest, ConnectToNobodyIsAnError) {
  NetHandle handle{};
  handle[0] = std::byte{0xff};
  EXPECT_EQ(communicator_->start_connect(handle, kPatience).get().result, 4);
}

TEST_F(DriverTest, AcceptThatNobodyMeetsTimesOut) {
  Listening listening;
  ASSERT_EQ(communicator_->listen(listening), kNetSuccess);
  EXPECT_EQ(communicator_->start_accept(listening.comm, kShort).get().result, kDriverTimeout);
  EXPECT_EQ(communicator_->close_listen(listening.comm), kNetSuccess);
}

TEST(NetApi, SaysWhatIsMissing) {
  std::string error;
  EXPECT_EQ(NetApi::load(MESH_FAKE_PLUGIN, 5, error), nullptr);
  EXPECT_NE(error.find("ncclNetPlugin_v5"), std::string::npos);
  EXPECT_EQ(NetApi::load("/nonexistent/plugin.so", 12, error), nullptr);
  EXPECT_NE(error.find("/nonexistent/plugin.so"), std::string::npos);
  EXPECT_EQ(NetApi::load(MESH_FAKE_PLUGIN, kNetVersionMax + 1, error), nullptr);
}

}  // namespace
}  // namespace mesh::driver
