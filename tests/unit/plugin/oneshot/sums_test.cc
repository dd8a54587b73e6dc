#include "plugin/oneshot/sums.h"

#include "plugin/oneshot/float_environment.h"
#include "tests/prelude.h"
#include "tests/unit/plugin/oneshot/plain_reduce.h"

namespace mesh::oneshot {
namespace {

using Bytes = std::vector<std::byte>;

std::vector<Simd> kinds() {
  if (best_simd() == Simd::Plain) return {Simd::Plain};
  return {Simd::Plain, best_simd()};
}

// The first byte in which two results differ, or their size.
std::size_t difference(const Bytes& a, const Bytes& b) {
  EXPECT_EQ(a.size(), b.size());
  return static_cast<std::size_t>(std::mismatch(a.begin(), a.end(), b.begin()).first - a.begin());
}

// Patterns that arithmetic treats in a way of its own, for each width, among random ones: zeros,
// denormals, the largest numbers, infinities, numbers that are none.
void plant_edges(Element element, std::mt19937_64& random, Bytes& data) {
  static constexpr std::uint64_t kDoubles[] = {0,
                                               0x8000000000000000,
                                               1,
                                               0x800fffffffffffff,
                                               0x7fefffffffffffff,
                                               0x7ff0000000000000,
                                               0xfff0000000000000,
                                               0x7ff8000000001234,
                                               0xfff4000000000001,
                                               0x3ff0000000000000};
  static constexpr std::uint32_t kFloats[] = {0,          0x80000000, 1,          0x807fffff,
                                              0x7f7fffff, 0x7f800000, 0xff800000, 0x7fc01234,
                                              0xffa00001, 0x3f800000, 0x33000001, 0x477ff000};
  static constexpr std::uint16_t kHalves[] = {0,      0x8000, 1,      0x83ff, 0x7bff,
                                              0x7c00, 0xfc00, 0x7e12, 0xfd01, 0x3c00,
                                              0x7f80, 0xff80, 0x7fc1, 0x7f7f};
  const std::size_t bytes = element_bytes(element);
  const auto plant = [&](const auto& edges) {
    for (std::size_t at = 0; at + bytes <= data.size(); at += bytes) {
      if (random() % 3 == 0)
        std::memcpy(data.data() + at, &edges[random() % std::size(edges)], bytes);
    }
  };
  if (element == Element::Double) plant(kDoubles);
  if (element == Element::Float) plant(kFloats);
  if (element == Element::Half || element == Element::Bfloat16) plant(kHalves);
}

std::vector<Bytes> random_inputs(Element element, std::size_t members, std::size_t count) {
  std::mt19937_64 random(members * 1'000'003 + count);
  std::vector<Bytes> inputs(members, Bytes(count * element_bytes(element)));
  for (Bytes& input : inputs) {
    for (std::byte& each : input) each = static_cast<std::byte>(random());
    plant_edges(element, random, input);
  }
  return inputs;
}

// Copies each input to an address that is `shift` bytes off, and reduces there.
struct Placed {
  explicit Placed(const std::vector<Bytes>& inputs, std::size_t shift) : shift_(shift) {
    for (const Bytes& input : inputs) {
      Bytes& room = rooms_.emplace_back(input.size() + shift + 1);
      std::copy(input.begin(), input.end(), room.begin() + static_cast<std::ptrdiff_t>(shift));
    }
    for (const Bytes& room : rooms_) at.push_back(room.data() + shift);
    out_.resize(rooms_[0].size(), std::byte{0xa5});
  }
  std::byte* out() { return out_.data() + shift_; }
  Bytes result() const {
    EXPECT_EQ(out_.back(), std::byte{0xa5}) << "written behind the end";
    return {out_.begin() + static_cast<std::ptrdiff_t>(shift_), out_.end() - 1};
  }

  std::vector<const std::byte*> at;

 private:
  const std::size_t shift_;
  std::vector<Bytes> rooms_;
  Bytes out_;
};

class Sums : public testing::TestWithParam<int> {
 protected:
  Element element() const { return static_cast<Element>(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(Elements, Sums, testing::Range(0, static_cast<int>(kElements)));

TEST_P(Sums, AreThoseOfAPlainLoop) {
  for (int operation = 0; operation < static_cast<int>(kOperations); ++operation) {
    const Reduction reduction{element(), static_cast<Operation>(operation)};
    for (const std::size_t members : {2u, 3u, 4u, 16u}) {
      for (const std::size_t count : {0u, 1u, 7u, 64u, 333u, 1024u, 1025u, 5000u}) {
        const std::vector<Bytes> inputs = random_inputs(element(), members, count);
        const Bytes wanted = testkit::plain_reduce(reduction, inputs);
        for (const Simd simd : kinds()) {
          Placed placed(inputs, count % 5);
          reduce_with(simd, {reduction, placed.at, placed.out(), count});
          ASSERT_EQ(difference(placed.result(), wanted), wanted.size())
              << "operation " << operation << ", members " << members << ", count " << count
              << ", simd " << static_cast<int>(simd);
        }
      }
    }
  }
}

TEST_P(Sums, MayReplaceAnInput) {
  const Reduction reduction{element(), Operation::Sum};
  for (const std::size_t own : {0u, 1u, 2u}) {
    std::vector<Bytes> inputs = random_inputs(element(), 3, 3000);
    const Bytes wanted = testkit::plain_reduce(reduction, inputs);
    const std::vector<const std::byte*> at{inputs[0].data(), inputs[1].data(), inputs[2].data()};
    reduce(reduction, at, inputs[own].data(), 3000);
    EXPECT_EQ(difference(inputs[own], wanted), wanted.size());
  }
}

// Every half and every bfloat16, with itself, and with one.
TEST(SmallFloats, EveryPatternIsRead) {
  for (const Element element : {Element::Half, Element::Bfloat16}) {
    constexpr std::size_t kPatterns = 65536;
    std::vector<Bytes> inputs(2, Bytes(kPatterns * 2));
    for (std::size_t i = 0; i < kPatterns; ++i) {
      const auto bits = static_cast<std::uint16_t>(i);
      const std::uint16_t one = element == Element::Half ? 0x3c00 : 0x3f80;
      std::memcpy(inputs[0].data() + 2 * i, &bits, 2);
      std::memcpy(inputs[1].data() + 2 * i, &one, 2);
    }
    for (const Operation operation : {Operation::Sum, Operation::Product, Operation::Max}) {
      const Reduction reduction{element, operation};
      const std::vector<const std::byte*> at{inputs[0].data(), inputs[1].data()};
      for (const Simd simd : kinds()) {
        Bytes out(kPatterns * 2);
        reduce_with(simd, {reduction, at, out.data(), kPatterns});
        EXPECT_EQ(difference(out, testkit::plain_reduce(reduction, inputs)), out.size());
      }
    }
  }
}

// A host whose program flushes denormals or rounds another way computes what the others do.
TEST(FloatEnvironment, OfTheCallerChangesNoBitAndComesBack) {
#if defined(__x86_64__)
  constexpr std::uint64_t kOther = FloatEnvironment::kDefault | 0x8040 | 0x6000;  // flush, truncate
#elif defined(__aarch64__)
  constexpr std::uint64_t kOther = (std::uint64_t{1} << 24) | (std::uint64_t{3} << 22);
#else
  constexpr std::uint64_t kOther = FloatEnvironment::kDefault;
#endif
  for (const Element element : {Element::Half, Element::Float, Element::Double}) {
    const Reduction reduction{element, Operation::Sum};
    const std::vector<Bytes> inputs = random_inputs(element, 3, 2000);
    const Bytes wanted = testkit::plain_reduce(reduction, inputs);
    Placed placed(inputs, 0);
    FloatEnvironment::set(kOther);
    reduce(reduction, placed.at, placed.out(), 2000);
    const std::uint64_t after = FloatEnvironment::get();
    FloatEnvironment::set(FloatEnvironment::kDefault);
    EXPECT_EQ(after, kOther);
    EXPECT_EQ(difference(placed.result(), wanted), wanted.size());
  }
}

}  // namespace
}  // namespace mesh::oneshot
