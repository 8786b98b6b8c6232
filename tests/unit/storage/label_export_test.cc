#include <gmock/gmock.h>

#include "arrow/scalar.h"
#include "arrow/table.h"
#include "stages/ingest/formats/table_writer.h"
#include "storage/maintenance/maintenance.h"
#include "tests/unit/storage/store_fixture.h"

namespace fulcrum::storage {
namespace {

using ::testing::HasSubstr;

class LabelExportTest : public StoreTest {
 protected:
  std::vector<ExportedLabel> Export() {
    std::vector<ExportedLabel> labels;
    auto reader = CampaignReader::Open(Folder());
    EXPECT_TRUE(reader.ok()) << reader.status();
    EXPECT_TRUE(VisitLabels(**reader, [&](const ExportedLabel& label) {
                  labels.push_back(label);
                  return absl::OkStatus();
                }).ok());
    return labels;
  }
};

TEST_F(LabelExportTest, EveryWordIsThereAndTheLastOneCounts) {
  Create();
  Batch({"a", "b"}, 0.5);
  const GrantedLease late = Lease("ada");
  clock_.Advance(std::chrono::hours(1));
  LabelNext("ben", "dog");
  ASSERT_TRUE(Submit("ada", late, "cat").ok());
  ASSERT_TRUE(store_->Run(WithdrawLabel, {.annotator = "ben", .request_id = "w", .item = "a"}).ok());
  ASSERT_TRUE(store_->Run(ImportLabels, {.source = "gold", .request_id = "i1", .labels = {{"z", "x"}}}).ok());
  ASSERT_TRUE(store_->Run(ImportLabels, {.source = "gold", .request_id = "i2", .labels = {{"z", "y"}}}).ok());
  const std::vector<ExportedLabel> labels = Export();
  ASSERT_EQ(labels.size(), 5u);
  EXPECT_EQ(labels[0].event.value, "dog");
  EXPECT_FALSE(labels[0].counts);  // withdrawn
  EXPECT_FALSE(labels[0].late);
  EXPECT_TRUE(labels[1].late);
  EXPECT_TRUE(labels[1].counts);
  EXPECT_EQ(labels[1].event.lease, late.lease);
  EXPECT_EQ(labels[1].event.cost, 0.5);
  EXPECT_EQ(labels[1].decision, "cat");
  EXPECT_EQ(labels[2].event.kind, EventKind::kLabelWithdrawn);
  EXPECT_FALSE(labels[2].counts);
  EXPECT_FALSE(labels[3].counts);  // imported again
  EXPECT_TRUE(labels[4].counts);
  EXPECT_EQ(labels[4].decision, "y");
}

TEST_F(LabelExportTest, CsvQuotesAndParquetKeepsTypes) {
  Create();
  Batch({"a, \"b\""});
  LabelNext("ada", "x,y");
  const std::vector<ExportedLabel> labels = Export();
  std::string text = LabelCsvHeader();
  AppendLabelCsv(labels[0], text);
  EXPECT_THAT(text, HasSubstr(",\"a, \"\"b\"\"\",\"x,y\",ada,2023-11-14T22:13:20.000000Z,"));

  const auto table = LabelTable(labels);
  ASSERT_TRUE(table.ok()) << table.status();
  const std::string path = directory_.File("labels.parquet");
  ASSERT_TRUE(ingest::WriteParquetFile(**table, path).ok());
  const auto read = ingest::ReadParquetFile(path);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_TRUE((*read)->Equals(**table));
  EXPECT_EQ((*(*read)->GetColumnByName("id")->GetScalar(0))->ToString(), "a, \"b\"");
  EXPECT_EQ((*read)->GetColumnByName("time")->type()->ToString(), "timestamp[us, tz=UTC]");
  std::string header = LabelCsvHeader();
  header.pop_back();
  std::string names;
  for (const std::string& name : (*read)->ColumnNames()) names += (names.empty() ? "" : ",") + name;
  EXPECT_EQ(names, header);
}

}  // namespace
}  // namespace fulcrum::storage
