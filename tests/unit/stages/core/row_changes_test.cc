#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "stages/core/rows.h"

namespace fulcrum {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(RowsOnlyIn, AreThoseThatTheOthersLack) {
  EXPECT_THAT(RowsOnlyIn(RowList{0, 4, 5, 9, 12}, RowList{1, 4, 6, 9}), ElementsAre(0, 5, 12));
  EXPECT_THAT(RowsOnlyIn(RowList{4, 9}, RowList{4, 9}), IsEmpty());
}

TEST(CarryValues, GivesNewRowsTheirOwn) {
  const RowList before = {1, 4, 6, 9}, now = {0, 4, 5, 9, 12};
  EXPECT_THAT(CarryValues(now, before, std::vector<double>{0.1, 0.4, 0.6, 0.9}, std::vector<double>{7, 8, 9}),
              ElementsAre(7, 0.4, 8, 0.9, 9));
}

}  // namespace
}  // namespace fulcrum
