#include <gmock/gmock.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "storage/state/item_table.h"

namespace fulcrum::storage {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

std::vector<std::string> IdsOf(const std::vector<const Item*>& items) {
  std::vector<std::string> ids;
  for (const Item* item : items) ids.push_back(item->id);
  return ids;
}

TEST(ChangedItems, AreTakenInLotsByTheirIds) {
  const std::vector<Item> items{{.id = "d"}, {.id = "a"}, {.id = "c"}, {.id = "b"}};
  ChangedItems changed;
  for (const Item& item : items) changed.Add(item);
  changed.Add(items[0]);
  EXPECT_EQ(changed.size(), 4u);
  EXPECT_THAT(IdsOf(changed.Take(3)), ElementsAre("a", "b", "c"));
  changed.Add(items[1]);  // again, while others wait
  EXPECT_THAT(changed.Ids(), UnorderedElementsAre("a", "d"));
  EXPECT_THAT(IdsOf(changed.Take(3)), ElementsAre("d"));
  EXPECT_THAT(IdsOf(changed.Take(3)), ElementsAre("a"));
  EXPECT_TRUE(changed.empty());
  EXPECT_TRUE(changed.Take(3).empty());
}

TEST(ChangedItems, NoneOfManyIsForgotten) {
  constexpr std::size_t kItems = 100'000;
  std::vector<Item> items(kItems);
  ChangedItems changed;
  for (std::size_t i = 0; i < kItems; ++i) {
    items[i].id = absl::StrCat(i * 7919 % kItems);
    changed.Add(items[i]);
  }
  std::vector<const Item*> taken;
  while (!changed.empty()) {
    const std::vector<const Item*> some = changed.Take(512);
    ASSERT_LE(some.size(), 512u);
    taken.insert(taken.end(), some.begin(), some.end());
  }
  std::sort(taken.begin(), taken.end());
  EXPECT_EQ(taken.size(), kItems);
  EXPECT_EQ(std::unique(taken.begin(), taken.end()), taken.end());
}

}  // namespace
}  // namespace fulcrum::storage
