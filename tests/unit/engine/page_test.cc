// The layouts drawn in engine/README.md are those that the code writes. Each drawing is made from a
// list of fields here, each field is shown to lie where the list says, and the page must contain
// the drawing.
#include "engine/control/frames.h"
#include "engine/control/handle.h"
#include "engine/data/queue_pair.h"
#include "engine/message/wire.h"
#include "tests/prelude.h"

namespace mesh::engine {
namespace {

constexpr std::uint32_t kOnes = UINT32_MAX;
constexpr std::uint64_t kLongOnes = UINT64_MAX;
using Units = std::vector<std::uint8_t>;  // bytes of an encoding, or its bits from the highest down

std::string page() {
  std::ifstream file(MESH_ENGINE_PAGE_FILE);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string centred(const std::string& text, std::size_t width) {
  const std::size_t left = (width - text.size()) / 2;
  return std::string(left, ' ') + text + std::string(width - text.size() - left, ' ');
}

struct Field {
  std::string name;
  std::size_t size = 0;
};

class Layout {
 public:
  // Draws units: bits are numbered from the highest down to 0, bytes from 0 up.
  Layout(std::initializer_list<Field> fields, bool bits) : fields_(fields), bits_(bits) {}

  std::size_t size() const {
    std::size_t sum = 0;
    for (const Field& field : fields_) sum += field.size;
    return sum;
  }

  std::string drawing() const {
    std::string edge = "+", names = "|", places = "|";
    for (const Field& field : fields_) {
      const std::string place = place_text(field);
      const std::size_t width = std::max(field.name.size(), place.size()) + 2;
      edge += std::string(width, '-') + "+";
      names += centred(field.name, width) + "|";
      places += centred(place, width) + "|";
    }
    return edge + "\n" + names + "\n" + places + "\n" + edge + "\n";
  }

  // Checks that the field named first, whose bits were all set, differs in every unit from before,
  // and that no field outside `names` differs.
  void expect(std::initializer_list<std::string_view> names, const Units& before,
              const Units& after) const {
    ASSERT_EQ(before.size(), size());
    ASSERT_EQ(after.size(), size());
    std::size_t at = 0;
    for (const Field& field : fields_) {
      const bool first = field.name == *names.begin();
      const bool named = std::find(names.begin(), names.end(), field.name) != names.end();
      for (std::size_t end = at + field.size; at < end; ++at) {
        if (first) {
          EXPECT_NE(before[at], after[at]) << field.name << " at " << at;
        } else if (!named) {
          EXPECT_EQ(before[at], after[at])
              << field.name << " at " << at << ", when " << *names.begin() << " changed";
        }
      }
    }
  }

 private:
  std::string place_text(const Field& wanted) const {
    std::size_t at = 0;
    for (const Field& field : fields_) {
      if (&field == &wanted) break;
      at += field.size;
    }
    const std::size_t first = bits_ ? size() - 1 - at : at;
    const std::size_t last = bits_ ? first + 1 - wanted.size : first + wanted.size - 1;
    return first == last ? std::to_string(first)
                         : std::to_string(first) + ".." + std::to_string(last);
  }

  std::vector<Field> fields_;
  bool bits_;
};

template <typename Word>
Units bits_of(Word word) {
  Units units;
  for (int bit = std::numeric_limits<Word>::digits - 1; bit >= 0; --bit)
    units.push_back((word >> bit) & 1);
  return units;
}

template <typename T>
Units bytes_of(const T& object, std::size_t from = 0) {
  Units units(sizeof(object) - from);
  std::memcpy(units.data(), reinterpret_cast<const std::byte*>(&object) + from, units.size());
  return units;
}

void expect_on_page(const Layout& layout) {
  EXPECT_NE(page().find(layout.drawing()), std::string::npos) << "paste this:\n"
                                                              << layout.drawing();
}

TEST(EnginePage, Immediate) {
  const Layout layout({{"stripes", 4}, {"channel", 13}, {"slot", 8}, {"generation", 7}}, true);
  const Announcement none{.stripes = 0};
  const auto differs = [&](std::string_view name, const Announcement& full) {
    layout.expect({name}, bits_of(pack(none)), bits_of(pack(full)));
  };
  differs("stripes", {.stripes = kStripesTold});
  differs("channel", {.stripes = 0, .channel = kChannelMask});
  differs("slot", {.stripes = 0, .slot = kSlotsMax - 1});
  differs("generation", {.stripes = 0, .generation = kOnes});
  expect_on_page(layout);
}

TEST(EnginePage, CtsEntry) {
  const Layout near({{"address", 8}, {"bytes", 8}, {"tag", 4}, {"rkey 0", 4}, {"check", 8}}, false);
  const auto near_entry = [](const Credit& credit) {
    std::array<std::uint64_t, kCreditHalfBytes / 8> words{};
    encode_credit(credit, 1, words.data());
    return bytes_of(words);
  };
  near.expect({"address", "check"}, near_entry({}), near_entry({.address = kLongOnes}));
  near.expect({"bytes", "check"}, near_entry({}), near_entry({.bytes = kLongOnes}));
  near.expect({"tag", "check"}, near_entry({}), near_entry({.tag = kOnes}));
  near.expect({"rkey 0", "check"}, near_entry({}), near_entry({.rkeys = {kOnes}}));
  expect_on_page(near);

  // The second half counts its bytes from the beginning of the entry, so the drawing begins with
  // the first half.
  const Layout far({{"first half", 32},
                    {"rkey 1", 4},
                    {"rkey 2", 4},
                    {"rkey 3", 4},
                    {"rkey 4", 4},
                    {"rkey 5", 4},
                    {"rkey 6", 4},
                    {"check", 4},
                    {"rkey 7", 4}},
                   false);
  const auto far_entry = [](std::size_t key) {
    std::array<std::uint64_t, kCreditBytesMax / 8> words{};
    Credit credit;
    if (key < kPathsMax) credit.rkeys[key] = kOnes;
    encode_credit(credit, kPathsMax, words.data());
    return bytes_of(words);
  };
  for (std::size_t key = 1; key < kPathsMax; ++key) {
    far.expect({"rkey " + std::to_string(key), "check"}, far_entry(kPathsMax), far_entry(key));
  }
  expect_on_page(far);
}

TEST(EnginePage, Record) {
  const Layout layout({{"bytes", 8}, {"stripes", 4}, {"generation", 4}}, false);
  const Units none = bytes_of(encode_record(0, 0, 0));
  layout.expect({"bytes"}, none, bytes_of(encode_record(kLongOnes, 0, 0)));
  layout.expect({"stripes"}, none, bytes_of(encode_record(0, kOnes, 0)));
  layout.expect({"generation"}, none, bytes_of(encode_record(0, 0, kOnes)));
  expect_on_page(layout);
}

TEST(EnginePage, WorkRequestId) {
  const Layout layout(
      {{"table index", 16}, {"receive", 1}, {"timed", 1}, {"life", 14}, {"count", 32}}, true);
  layout.expect({"table index"}, bits_of(wr_id_base(0, 0)), bits_of(wr_id_base(0xffff, 0)));
  layout.expect({"receive"}, bits_of(std::uint64_t{0}), bits_of(kReceiveBit));
  layout.expect({"timed"}, bits_of(std::uint64_t{0}), bits_of(kTimedBit));
  layout.expect({"life"}, bits_of(wr_id_base(0, 0)), bits_of(wr_id_base(0, kOnes)));
  expect_on_page(layout);
}

TEST(EnginePage, FrameHeader) {
  const Layout layout({{"magic", 4},
                       {"version", 2},
                       {"type", 2},
                       {"length", 4},
                       {"epoch", 4},
                       {"sequence", 8},
                       {"link", 16},
                       {"acknowledged", 8}},
                      false);
  ASSERT_EQ(layout.size(), kFrameHeaderBytes);
  const auto frame = [](const FrameHeader& header) {
    const Bytes bytes = encode(header, Bye{});
    Units units(bytes.size());
    std::memcpy(units.data(), bytes.data(), bytes.size());
    return units;
  };
  Id128 ones;
  ones.fill(0xff);
  layout.expect({"epoch"}, frame({}), frame({.epoch = kOnes}));
  layout.expect({"sequence"}, frame({}), frame({.sequence = kLongOnes}));
  layout.expect({"acknowledged"}, frame({}), frame({.acknowledged = kLongOnes}));
  layout.expect({"link"}, frame({}), frame({.link = ones}));
  const Units bye = frame({});
  EXPECT_EQ(std::string(bye.begin(), bye.begin() + 4), "JSEM")
      << "the magic's bytes as they travel";
  EXPECT_EQ(bye[4], kProtocolVersion);
  EXPECT_EQ(bye[6], static_cast<std::uint8_t>(MessageType::Bye));
  expect_on_page(layout);
}

TEST(EnginePage, NamesEveryFrame) {
  const std::string text = page();
  for (std::uint16_t type = 1; type < static_cast<std::uint16_t>(MessageType::End); ++type) {
    const std::string name(frame_name(MessageType{type}));
    EXPECT_TRUE(std::regex_search(text, std::regex("\\b" + name + "\\b"))) << name;
  }
}

TEST(EnginePage, Handle) {
  const Layout layout({{"magic", 4},
                       {"version", 2},
                       {"zero", 2},
                       {"nonce", 16},
                       {"context", 16},
                       {"port", 2},
                       {"n", 1},
                       {"rail", 1},
                       {"m", 1},
                       {"zero", 3},
                       {"where", 64},
                       {"stage", 16}},
                      false);
  ASSERT_EQ(layout.size(), kHandleBytes);
  const auto handle = [](const Handle& content) {
    HandleBytes bytes{};
    write_handle(content, bytes);
    return bytes_of(bytes);
  };
  Id128 ones;
  ones.fill(0xff);
  layout.expect({"nonce"}, handle({}), handle({.nonce = ones, .addresses = {}}));
  layout.expect({"context"}, handle({}), handle({.context = ones, .addresses = {}}));
  layout.expect({"port"}, handle({}), handle({.port = 0xffff, .addresses = {}}));
  layout.expect({"rail"}, handle({}), handle({.rail = 0xff, .addresses = {}}));
  HandleBytes staged{};
  write_stage({.index = kLongOnes, .check = kLongOnes}, staged);
  layout.expect({"stage"}, bytes_of(HandleBytes{}), bytes_of(staged));
  SocketAddress address;
  address.family = AF_INET;
  address.bytes.fill(0xff);
  const Units one = handle({.addresses = {address}});
  EXPECT_EQ(one[42], 1) << "count";
  EXPECT_EQ(one[48], 4) << "family of the first address";
  EXPECT_EQ(one[50], 0xff) << "its first byte";
  const Units many = handle({.addresses = std::vector(15, address)});
  EXPECT_EQ(many[42], 1) << "count";
  EXPECT_EQ(many[44], 14) << "count of further IPv4 addresses";
  EXPECT_EQ(many[54], 0xff) << "first byte of the second address";
  expect_on_page(layout);
}

}  // namespace
}  // namespace mesh::engine
