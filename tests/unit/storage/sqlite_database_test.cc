#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "storage/sqlite/sqlite.h"
#include "tests/support/temporary_directory.h"

namespace fulcrum::storage {
namespace {

using ::testing::HasSubstr;

std::string Pragma(SqliteDatabase& database, const std::string& name) {
  const auto value = database.QueryText("PRAGMA " + name);
  return value.ok() ? *value : value.status().ToString();
}

/// A database large enough that its middle is a page of the table.
std::string WriteLargeDatabase(const testing::TemporaryDirectory& directory) {
  std::string path = directory.File("large.db");
  auto database = SqliteDatabase::Open(path);
  EXPECT_TRUE(database.ok()) << database.status();
  const absl::Status filled = database->Execute(
      "CREATE TABLE label(id INTEGER PRIMARY KEY, note TEXT NOT NULL);"
      "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000)"
      "INSERT INTO label SELECT i, 'note number ' || i FROM n;");
  EXPECT_TRUE(filled.ok()) << filled;
  return path;
}

void OverwriteMiddle(const std::string& path, std::size_t count) {
  const auto middle = static_cast<std::streamoff>(std::filesystem::file_size(path) / 2 / 4096 * 4096);
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(middle);
  file << std::string(count, '\xa5');
}

TEST(SqliteDatabaseTest, WritesThroughAWriteAheadLogWithFullSync) {
  const testing::TemporaryDirectory directory;
  auto database = SqliteDatabase::Open(directory.File("campaign.db"));
  ASSERT_TRUE(database.ok()) << database.status();
  EXPECT_EQ(Pragma(*database, "journal_mode"), "wal");
  EXPECT_EQ(Pragma(*database, "synchronous"), "2");  // 2 is FULL
  EXPECT_EQ(Pragma(*database, "foreign_keys"), "1");
  EXPECT_EQ(Pragma(*database, "busy_timeout"), "5000");
  ASSERT_TRUE(database->Execute("CREATE TABLE t(x)").ok());
  EXPECT_GT(std::filesystem::file_size(directory.File("campaign.db-wal")), 0U);
}

TEST(SqliteDatabaseTest, ForeignKeysAreEnforced) {
  const testing::TemporaryDirectory directory;
  auto database = SqliteDatabase::Open(directory.File("campaign.db"));
  ASSERT_TRUE(database.ok()) << database.status();
  ASSERT_TRUE(database
                  ->Execute("CREATE TABLE item(id INTEGER PRIMARY KEY);"
                            "CREATE TABLE label(item INTEGER NOT NULL REFERENCES item(id));")
                  .ok());
  const absl::Status status = database->Execute("INSERT INTO label VALUES (7)");
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("FOREIGN KEY"));
}

TEST(SqliteDatabaseTest, ReadOnlyConnectionSeesRowsAndCannotWrite) {
  const testing::TemporaryDirectory directory;
  const std::string path = WriteLargeDatabase(directory);
  auto reader = SqliteDatabase::Open(path, {.read_only = true});
  ASSERT_TRUE(reader.ok()) << reader.status();
  const auto count = reader->QueryText("SELECT count(*) FROM label");
  ASSERT_TRUE(count.ok()) << count.status();
  EXPECT_EQ(*count, "5000");
  EXPECT_EQ(reader->Execute("DELETE FROM label").code(), absl::StatusCode::kPermissionDenied);
}

TEST(SqliteDatabaseTest, MissingFileIsNamed) {
  const testing::TemporaryDirectory directory;
  const auto reader = SqliteDatabase::Open(directory.File("absent.db"), {.read_only = true});
  EXPECT_EQ(reader.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(reader.status().message()), HasSubstr(directory.File("absent.db")));
  EXPECT_THAT(std::string(reader.status().message()), HasSubstr("SQLite code 14"));

  const auto writer = SqliteDatabase::Open(directory.File("no/such/folder.db"));
  EXPECT_EQ(writer.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(writer.status().message()), HasSubstr("no/such/folder.db"));
}

TEST(SqliteDatabaseTest, FileThatIsNoDatabaseIsRefusedAndLeftAlone) {
  const testing::TemporaryDirectory directory;
  const std::string text(8192, 'x');
  const std::string path = directory.Write("notes.txt", text);
  const auto database = SqliteDatabase::Open(path);
  EXPECT_EQ(database.status().code(), absl::StatusCode::kDataLoss) << database.status();
  EXPECT_THAT(std::string(database.status().message()), HasSubstr("not a SQLite database"));
  std::ifstream file(path);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), text);
}

TEST(SqliteDatabaseTest, DamagedFileIsRefusedWithWhatIsWrongAndWhatToDo) {
  const testing::TemporaryDirectory directory;
  const std::string path = WriteLargeDatabase(directory);
  ASSERT_TRUE(SqliteDatabase::Open(path).ok());
  OverwriteMiddle(path, 4096);
  const auto database = SqliteDatabase::Open(path);
  ASSERT_EQ(database.status().code(), absl::StatusCode::kDataLoss) << database.status();
  const std::string message(database.status().message());
  EXPECT_THAT(message, HasSubstr(path));
  EXPECT_THAT(message, HasSubstr("backup"));
  EXPECT_TRUE(SqliteExtendedCode(database.status()).has_value());
}

TEST(SqliteDatabaseTest, DamageIsNotSeenIfTheCheckIsOff) {
  const testing::TemporaryDirectory directory;
  const std::string path = WriteLargeDatabase(directory);
  OverwriteMiddle(path, 4096);
  EXPECT_TRUE(SqliteDatabase::Open(path, {.check_integrity = false}).ok());
}

TEST(SqliteDatabaseTest, DatabaseInMemoryIsRefusedBecauseItCannotBeDurable) {
  const auto database = SqliteDatabase::Open(":memory:");
  EXPECT_EQ(database.status().code(), absl::StatusCode::kFailedPrecondition) << database.status();
  EXPECT_THAT(std::string(database.status().message()), HasSubstr("journal_mode=memory"));
}

TEST(SqliteDatabaseTest, FaultsInSqlAreNamedWithTheirText) {
  const testing::TemporaryDirectory directory;
  auto database = SqliteDatabase::Open(directory.File("campaign.db"));
  ASSERT_TRUE(database.ok()) << database.status();
  const absl::Status status = database->Prepare("SELECT id FROM nowhere").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), HasSubstr("no such table: nowhere"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("SELECT id FROM nowhere"));
  EXPECT_EQ(SqliteExtendedCode(status), 1);
  EXPECT_EQ(SqliteExtendedCode(absl::InternalError("made elsewhere")), std::nullopt);
  EXPECT_EQ(database->Prepare("  ").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(SqliteDatabaseTest, AConnectionThatOnlyAppendsIsRefusedAllElse) {
  const testing::TemporaryDirectory directory;
  auto database = SqliteDatabase::Open(directory.File("campaign.db"));
  ASSERT_TRUE(database
                  ->Execute("CREATE TABLE log(x); CREATE TABLE other(x); INSERT INTO log VALUES (1);"
                            "INSERT INTO other VALUES (1);"
                            "CREATE TRIGGER stays BEFORE INSERT ON log BEGIN SELECT RAISE(ABORT, 'refused'); END;")
                  .ok());
  ASSERT_THAT(std::string(database->Execute("INSERT INTO log VALUES (2)").message()), HasSubstr("refused"));
  database->AllowOnlyAppendingTo("log");
  EXPECT_TRUE(database->Execute("INSERT INTO log VALUES (2)").ok());
  for (const char* sql : {"UPDATE log SET x=3", "DELETE FROM log", "DELETE FROM LOG WHERE x=1", "DROP TABLE log",
                          "ALTER TABLE log RENAME TO gone", "DROP TRIGGER stays"}) {
    EXPECT_THAT(std::string(database->Execute(sql).message()), HasSubstr("not authorized")) << sql;
  }
  EXPECT_EQ(*database->QueryText("SELECT group_concat(x) FROM log"), "1,2");
  EXPECT_TRUE(database->Execute("UPDATE other SET x=3; DELETE FROM other;").ok());
}

}  // namespace
}  // namespace fulcrum::storage
