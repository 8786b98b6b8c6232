// A campaign has its own copy of its pool, so later changes of the sources have no effect.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "pipeline/round/pool_source.h"
#include "stages/ingest/formats/table_writer.h"
#include "storage/maintenance/maintenance.h"
#include "tests/daemon/support/daemon_fixture.h"

namespace fulcrum::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

class OwnPoolTest : public DaemonTest {
 protected:
  std::string Campaign(const std::string& name) const { return folder_.File("data/campaigns/" + name); }

  v1::CampaignSpec SpecOf(const std::string& name, const std::string& source) {
    v1::CampaignSpec spec = CloudSpec(name, 4);
    spec.mutable_pool()->set_sources(0, source);
    return spec;
  }
  void CreateAndStart(DaemonClient& client, const v1::CampaignSpec& spec) {
    const grpc::Status created = client.Create(spec);
    ASSERT_TRUE(created.ok()) << created.error_message();
    ASSERT_TRUE(client.Start(spec.name()).ok());
  }
};

TEST_F(OwnPoolTest, SourcesMayGoAwayOnceTheCampaignIsMade) {
  std::string labeled = "label,f0,f1,f2,f3\n";
  for (int row = 0; row < 20; ++row) absl::StrAppend(&labeled, row % 2 == 0 ? "neg,-1,-1,-1,-1\n" : "pos,1,1,1,1\n");
  folder_.Write("pools/held_out.csv", labeled);
  ASSERT_TRUE(ingest::ConvertTable({folder_.File("pools/named.csv")}, folder_.File("pools/named.parquet")).ok());
  pipeline::ImportOptions import;
  import.sources = {folder_.File("pools/named.parquet")};
  import.folder = folder_.File("pools/imported");
  ASSERT_TRUE(pipeline::ImportPool(import).ok());
  const std::vector<std::string> sources = {"named.csv", "named.parquet", "imported"};
  StartDaemon();
  DaemonClient client = Client();
  CreateAndStart(client, SpecOf("whole", "named.csv"));
  for (const std::string& source : sources) {
    v1::CampaignSpec spec = SpecOf(absl::StrCat("from-", source.substr(source.rfind('.') + 1)), source);
    spec.mutable_stop()->mutable_accuracy()->add_sources("held_out.csv");
    CreateAndStart(client, spec);
  }
  std::filesystem::remove_all(folder_.File("pools"));
  WorkUntilOver(client, "whole", "ada");
  const Batches batches = client.ExportedBatches("whole");
  for (const char* name : {"from-csv", "from-parquet", "from-imported"}) WorkUntilOver(client, name, "ada", 8);
  StopDaemon();
  StartDaemon();
  DaemonClient again = Client();
  for (const char* name : {"from-csv", "from-parquet", "from-imported"}) {
    WorkUntilOver(again, name, "ada");
    EXPECT_EQ(again.ExportedBatches(name), batches) << name;
    EXPECT_GT(again.Get(name).accuracy(), 0.9) << name;
  }
  EXPECT_THAT(batches, SizeIs(4));
}

TEST_F(OwnPoolTest, APoolThatCannotBeTakenLeavesNothingBehind) {
  folder_.Write("pools/bad.csv", CloudsText(50) + "1,2,nan,4\n");
  StartDaemon();
  DaemonClient client = Client();
  const grpc::Status refused = client.Create(SpecOf("clouds", "bad.csv"));
  EXPECT_FALSE(refused.ok());
  EXPECT_THAT(refused.error_message(), HasSubstr("bad.csv, row 50"));
  EXPECT_TRUE(std::filesystem::is_empty(folder_.File("data/campaigns")));
  EXPECT_TRUE(client.Create(CloudSpec("clouds", 2)).ok()) << "the name is free";
}

TEST_F(OwnPoolTest, WhatWasLeftByAKillWhileACampaignWasMadeIsRemoved) {
  StartDaemon();
  ASSERT_TRUE(Client().Create(CloudSpec("clouds", 2)).ok());
  StopDaemon();
  // The state before the final rename.
  std::filesystem::rename(Campaign("clouds"), Campaign("clouds.unfinished"));
  StartDaemon();
  DaemonClient client = Client();
  v1::Campaign campaign;
  EXPECT_EQ(client.TryGet("clouds", &campaign).error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_FALSE(std::filesystem::exists(Campaign("clouds.unfinished")));
  EXPECT_TRUE(client.Create(CloudSpec("clouds", 2)).ok());
}

TEST_F(OwnPoolTest, ACampaignThatWasRestoredWithoutItsPoolImportsItAgain) {
  StartDaemon();
  DaemonClient client = Client();
  for (const char* name : {"whole", "restored"}) CreateAndStart(client, SpecOf(name, "named.csv"));
  WorkUntilOver(client, "whole", "ada");
  WorkUntilOver(client, "restored", "ada", 8);
  StopDaemon();
  ASSERT_TRUE(storage::BackUpCampaign(Campaign("restored"), folder_.File("backup"), {.with_pool = false}).ok());
  std::filesystem::remove_all(Campaign("restored"));
  ASSERT_TRUE(storage::RestoreCampaign(folder_.File("backup"), Campaign("restored")).ok());
  ASSERT_TRUE(std::filesystem::is_empty(Campaign("restored/pool")));
  StartDaemon();
  DaemonClient again = Client();
  WorkUntilOver(again, "restored", "ada");
  EXPECT_EQ(again.ExportedBatches("restored"), again.ExportedBatches("whole"));
}

TEST_F(OwnPoolTest, IdsThatTheLogCannotTakeAreRefusedBeforeARoundFails) {
  const std::string longest(4096, 'x');
  const auto rows = [](const std::string& id) { return absl::StrCat("id,f0,f1,f2,f3\n0,1,2,3,4\n", id, ",4,3,2,1\n"); };
  folder_.Write("pools/longest.csv", rows(longest));
  folder_.Write("pools/longer.csv", rows(longest + "x"));
  StartDaemon();
  DaemonClient client = Client();
  CreateAndStart(client, SpecOf("longest", "longest.csv"));
  client.AcquireOne("longest", "ada");
  const grpc::Status refused = client.Create(SpecOf("longer", "longer.csv"));
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(refused.error_message(), HasSubstr("the id of row 1"));
  const std::string arrow = folder_.File("longer.arrow");
  ASSERT_TRUE(ingest::ConvertTable({folder_.File("pools/longer.csv")}, arrow).ok());
  std::ifstream file(arrow, std::ios::binary);
  v1::AppendItemsResponse response;
  const grpc::Status appended =
      client.Append("longest", NewRequestId(), std::string(std::istreambuf_iterator<char>(file), {}), &response);
  EXPECT_EQ(appended.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << appended.error_message();
  EXPECT_EQ(client.Get("longest").pool_rows(), 2);
}

/// These columns of a table, in this order; one that it does not have is 5 in all rows.
std::string WithColumns(const std::string& table, const std::vector<std::string>& columns) {
  const std::vector<std::string> lines = absl::StrSplit(table, '\n', absl::SkipEmpty());
  const std::vector<std::string> names = absl::StrSplit(lines[0], ',');
  std::string text;
  for (const std::string& line : lines) {
    const std::vector<std::string> values = absl::StrSplit(line, ',');
    std::vector<std::string> chosen;
    for (const std::string& column : columns) {
      const auto found = std::find(names.begin(), names.end(), column);
      chosen.push_back(found == names.end() ? (text.empty() ? column : "5")
                                            : values[static_cast<std::size_t>(found - names.begin())]);
    }
    absl::StrAppend(&text, absl::StrJoin(chosen, ","), "\n");
  }
  return text;
}

TEST_F(OwnPoolTest, ValidationMatchesFeaturesByName) {
  // Features that differ in what they say: taken by position, the classes would be wrong.
  std::string pool = "id,text,price,f0,f1,f2,label\n";
  for (int row = 0; row < 80; ++row) {
    const bool positive = row % 2 == 1;
    absl::StrAppend(&pool, "x", row, ",see ", row, ",1,", positive ? 2 : -2, ",", 0.01 * (row % 7), ",",
                    positive ? -3 : 3, ",", positive ? "pos" : "neg", "\n");
  }
  folder_.Write("pools/own.csv", pool);
  folder_.Write("pools/shuffled.csv", WithColumns(pool, {"f2", "label", "f1", "f0"}));
  folder_.Write("pools/missing.csv", WithColumns(pool, {"f2", "label", "f0"}));
  folder_.Write("pools/extra.csv", WithColumns(pool, {"f0", "f1", "f2", "f3", "label"}));
  StartDaemon();
  DaemonClient client = Client();
  const auto spec_of = [&](const std::string& name, const std::string& held_out) {
    v1::CampaignSpec spec = SpecOf(name, "own.csv");
    spec.mutable_pool()->set_id_column("id");
    spec.mutable_pool()->set_payload_column("text");
    spec.mutable_pool()->set_cost_column("price");
    spec.mutable_stop()->set_rounds(3);
    spec.mutable_stop()->mutable_accuracy()->add_sources(held_out);
    return spec;
  };
  // The campaign's own file has its id, payload and cost columns; others need not.
  for (const auto& [name, file] : {std::pair("own", "own.csv"), {"shuffled", "shuffled.csv"}}) {
    CreateAndStart(client, spec_of(name, file));
    for (bool over = false; !over;) {
      v1::AcquireTasksResponse tasks;
      ASSERT_TRUE(client.Acquire(TasksWanted(name, "ada", 6), &tasks).ok());
      for (const v1::Task& task : tasks.tasks()) {
        ASSERT_EQ(client.SubmitOne(name, "ada", task, AnswerTo(task.item_id().substr(1))), 0);
      }
      over = tasks.campaign_over();
    }
    EXPECT_EQ(client.Get(name).accuracy(), 1) << name;
  }
  const grpc::Status missing = client.Create(spec_of("missing", "missing.csv"));
  EXPECT_THAT(missing.error_message(), HasSubstr("lack 1 of the pool's features: 'f1'"));
  const grpc::Status extra = client.Create(spec_of("extra", "extra.csv"));
  EXPECT_THAT(extra.error_message(), HasSubstr("'f3'"));
}

}  // namespace
}  // namespace fulcrum::testing
