#include "src/base/user_directory.h"

#include "tests/prelude.h"
#include "tests/unit/base/child.h"
#include "tests/unit/base/folder.h"
#include "tests/unit/base/log_capture.h"

namespace mesh {
namespace {

class UserDirectory : public ::testing::Test {
 protected:
  const testkit::Folder folder_;
  std::vector<std::string> places_{folder_.path("first"), folder_.path("second")};
};

TEST_F(UserDirectory, IsMadeForUsAloneAndFoundAgain) {
  EXPECT_EQ(*user_directory(places_), places_[0]);
  EXPECT_EQ(*user_directory(places_), places_[0]);
  struct stat about {};
  ASSERT_EQ(::stat(places_[0].c_str(), &about), 0);
  EXPECT_EQ(about.st_mode, S_IFDIR | 0700u);
  EXPECT_FALSE(std::filesystem::exists(places_[1]));
}

TEST_F(UserDirectory, APlaceWithoutItsParentIsPassedOver) {
  places_[0] = folder_.path("nowhere/first");
  EXPECT_EQ(*user_directory(places_), places_[1]);
}

TEST_F(UserDirectory, ALinkAndAPlaceOpenToOthersArePassedOver) {
  folder_.link("first", "target");
  EXPECT_EQ(*user_directory(places_), places_[1]);
  ASSERT_EQ(::chmod(places_[1].c_str(), 0755), 0);
  EXPECT_EQ(user_directory(places_).code(), Errc::System);
}

TEST_F(UserDirectory, SomebodyElsesPlaceIsNamedAndPassedOver) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a directory to another user";
  std::filesystem::create_directory(places_[0]);
  ASSERT_EQ(::chown(places_[0].c_str(), testkit::kNobody, testkit::kNobody), 0);
  const testkit::LogCapture log;
  EXPECT_EQ(*user_directory(places_), places_[1]);
  EXPECT_EQ(*user_directory(places_), places_[1]) << "and says no more";
  const std::string said =
      fmt::format("{} is used, since {} cannot be: it belongs to user {}, not 0", places_[1],
                  places_[0], testkit::kNobody);
  EXPECT_EQ(log.joined(), said + "\n");
}

TEST(UserPlaces, NameTheUser) {
  const std::vector<std::string> places = user_places();
  ASSERT_EQ(places.size(), 3u);
  for (const std::string& place : places)
    EXPECT_NE(place.find(std::to_string(::geteuid())), std::string::npos) << place;
}

}  // namespace
}  // namespace mesh
