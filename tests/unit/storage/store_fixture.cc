#include "tests/unit/storage/store_fixture.h"

#include "storage/campaign_reader.h"

namespace fulcrum::storage {

Item StoreTest::ItemNow(const std::string& id) {
  auto reader = CampaignReader::Open(Folder());
  EXPECT_TRUE(reader.ok()) << reader.status();
  if (!reader.ok()) return {};
  EXPECT_TRUE((*reader)->CatchUp().ok());
  const Item* const item = (*reader)->state().items().Find(id);
  return item == nullptr ? Item{} : *item;
}

}  // namespace fulcrum::storage
