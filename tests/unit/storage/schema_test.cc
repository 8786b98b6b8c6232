
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "storage/campaign_store.h"
#include "storage/log/event_log.h"
#include "tests/support/temporary_directory.h"

namespace fulcrum::storage {
namespace {

using ::testing::HasSubstr;

class SchemaTest : public ::testing::Test {
 protected:
  SqliteDatabase Open(const std::string& name = "campaign.db") {
    auto database = SqliteDatabase::Open(directory_.File(name));
    EXPECT_TRUE(database.ok()) << database.status();
    return *std::move(database);
  }
  const testing::TemporaryDirectory directory_;
};

TEST_F(SchemaTest, AnOlderDatabaseIsBroughtUpToDateAndKeepsItsLog) {
  SqliteDatabase database = Open();
  ASSERT_TRUE(Migrate(database, 1).ok());
  auto log = EventLog::Open(database);
  ASSERT_TRUE(log->Append({.sequence = 1, .kind = EventKind::kLifeChanged, .value = "running"}).ok());
  EXPECT_FALSE(database.QueryText("SELECT count(*) FROM item").ok());
  ASSERT_TRUE(Migrate(database).ok());
  EXPECT_EQ(*CheckSchema(database), LatestSchemaVersion());
  EXPECT_EQ(*database.QueryText("SELECT count(*) FROM item"), "0");
  EXPECT_EQ(std::get<LifeChanged>(log->Find(1)->body).life, "running");
  EXPECT_TRUE(Migrate(database).ok());
}

TEST_F(SchemaTest, EventsFromBeforeThereWereChecksumsAreCoveredByOneForAll) {
  SqliteDatabase database = Open();
  ASSERT_TRUE(Migrate(database, 2).ok());
  {
    auto old_log = EventLog::Open(database);
    for (std::int64_t i = 1; i <= 3; ++i) ASSERT_TRUE(old_log->Append({.sequence = i, .value = "old"}).ok());
  }
  ASSERT_TRUE(Migrate(database).ok());
  auto log = EventLog::Open(database);
  for (std::int64_t i = 4; i <= 6; ++i) ASSERT_TRUE(log->Append({.sequence = i, .value = "new"}).ok());
  const auto visit_all = [](const Event&) { return absl::OkStatus(); };
  EXPECT_TRUE(log->Visit(1, kEndOfLog, visit_all).ok());
  EXPECT_TRUE(log->Visit(2, kEndOfLog, visit_all).ok());
  ASSERT_TRUE(database.Execute("DROP TRIGGER event_is_never_changed").ok());
  ASSERT_TRUE(database.Execute("UPDATE event SET value='forged' WHERE sequence=2").ok());
  EXPECT_EQ(log->Visit(1, kEndOfLog, visit_all).code(), absl::StatusCode::kDataLoss);
  EXPECT_TRUE(log->Visit(4, kEndOfLog, visit_all).ok());
  ASSERT_TRUE(database.Execute("UPDATE event SET value='old' WHERE sequence=2").ok());
  EXPECT_TRUE(log->Visit(1, kEndOfLog, visit_all).ok());
  ASSERT_TRUE(database.Execute("UPDATE event SET round=1 WHERE sequence=5").ok());
  EXPECT_EQ(log->Visit(5, 5, visit_all).code(), absl::StatusCode::kDataLoss);
}

TEST_F(SchemaTest, ANewerDatabaseIsRefusedAndLeftAlone) {
  SqliteDatabase database = Open();
  ASSERT_TRUE(Migrate(database).ok());
  ASSERT_TRUE(database.Execute("PRAGMA user_version=99").ok());
  const absl::Status status = Migrate(database);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("schema version 99"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("newer fulcrum"));
  EXPECT_EQ(*database.QueryText("PRAGMA user_version"), "99");
}

TEST_F(SchemaTest, SomeOtherDatabaseIsRefused) {
  SqliteDatabase database = Open();
  ASSERT_TRUE(database.Execute("CREATE TABLE bookmarks(url)").ok());
  const absl::Status status = Migrate(database);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("not a campaign's"));
}

TEST_F(SchemaTest, TheLogCanOnlyGrow) {
  SqliteDatabase database = Open();
  ASSERT_TRUE(Migrate(database).ok());
  auto log = EventLog::Open(database);
  ASSERT_TRUE(log->Append({.sequence = 1, .value = "first"}).ok());
  ASSERT_TRUE(log->Append({.sequence = 2, .value = "second"}).ok());
  for (const char* sql : {"UPDATE event SET value='other'", "DELETE FROM event WHERE sequence=2",
                          "INSERT OR REPLACE INTO event(sequence, kind, at_us, value) VALUES (1, 1, 0, 'other')",
                          "INSERT INTO event(sequence, kind, at_us) VALUES (4, 1, 0)",
                          "INSERT INTO event(kind, at_us) VALUES (1, NULL)"}) {
    EXPECT_FALSE(database.Execute(sql).ok()) << sql;
  }
  EXPECT_EQ(*database.QueryText("SELECT group_concat(value) FROM event"), "first,second");
}

}  // namespace
}  // namespace fulcrum::storage
