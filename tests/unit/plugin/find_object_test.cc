// The library's own _dl_find_object, linked into this program, compared with glibc's.

#include "tests/prelude.h"

#include <link.h>

namespace mesh::plugin {
namespace {

#if defined(DLFO_STRUCT_HAS_EH_DBASE) && !DLFO_STRUCT_HAS_EH_DBASE && !DLFO_STRUCT_HAS_EH_COUNT

using Find = int (*)(void*, dl_find_object*);

TEST(FindObject, AnswersAsGlibcDoes) {
  const auto glibcs = reinterpret_cast<Find>(::dlvsym(RTLD_NEXT, "_dl_find_object", "GLIBC_2.35"));
  if (glibcs == nullptr) GTEST_SKIP() << "this glibc has none";
  ASSERT_NE(glibcs, &::_dl_find_object) << "ours is not linked in";
  int here = 0;
  const auto throwing = static_cast<int (*)(const std::string&, std::size_t*, int)>(std::stoi);
  for (void* const address :
       {reinterpret_cast<void*>(&::dlopen), reinterpret_cast<void*>(throwing),
        reinterpret_cast<void*>(static_cast<void (*)(int*, char**)>(&::testing::InitGoogleTest))}) {
    dl_find_object ours{}, theirs{};
    ASSERT_EQ(::_dl_find_object(address, &ours), 0);
    ASSERT_EQ(glibcs(address, &theirs), 0);
    EXPECT_EQ(ours.dlfo_eh_frame, theirs.dlfo_eh_frame);
    EXPECT_LE(ours.dlfo_map_start, address);
    EXPECT_GT(ours.dlfo_map_end, address);
  }
  dl_find_object none{};
  EXPECT_EQ(::_dl_find_object(&here, &none), -1) << "the stack is in no object";
  EXPECT_EQ(::_dl_find_object(nullptr, &none), -1);
}

#endif

}  // namespace
}  // namespace mesh::plugin
