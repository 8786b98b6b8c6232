#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>

#include "storage/sqlite/sqlite.h"
#include "tests/support/temporary_directory.h"

namespace fulcrum::storage {
namespace {

using ::testing::HasSubstr;

class SqliteTransactionTest : public ::testing::Test {
 protected:
  SqliteTransactionTest() : writer_(SqliteDatabase::Open(directory_.File("log.db"))) {}

  void SetUp() override {
    ASSERT_TRUE(writer_.ok()) << writer_.status();
    ASSERT_TRUE(writer_->Execute("CREATE TABLE label(id INTEGER PRIMARY KEY)").ok());
  }

  absl::StatusOr<SqliteDatabase> OpenReader() {
    return SqliteDatabase::Open(directory_.File("log.db"), {.read_only = true});
  }

  static std::string Count(SqliteDatabase& database) {
    const auto count = database.QueryText("SELECT count(*) FROM label");
    return count.ok() ? *count : count.status().ToString();
  }

  const testing::TemporaryDirectory directory_;
  absl::StatusOr<SqliteDatabase> writer_;
};

TEST_F(SqliteTransactionTest, CommitKeepsAndDroppingUndoes) {
  {
    auto kept = SqliteTransaction::BeginWrite(*writer_);
    ASSERT_TRUE(kept.ok()) << kept.status();
    ASSERT_TRUE(writer_->Execute("INSERT INTO label VALUES (1)").ok());
    ASSERT_TRUE(kept->Commit().ok());
    EXPECT_EQ(kept->Commit().code(), absl::StatusCode::kFailedPrecondition);
  }
  {
    auto dropped = SqliteTransaction::BeginWrite(*writer_);
    ASSERT_TRUE(dropped.ok()) << dropped.status();
    ASSERT_TRUE(writer_->Execute("INSERT INTO label VALUES (2)").ok());
    EXPECT_EQ(Count(*writer_), "2");
    EXPECT_TRUE(writer_->in_transaction());
  }
  EXPECT_FALSE(writer_->in_transaction());
  EXPECT_EQ(Count(*writer_), "1");
}

TEST_F(SqliteTransactionTest, MovedTransactionEndsOnce) {
  auto first = SqliteTransaction::BeginWrite(*writer_);
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_TRUE(writer_->Execute("INSERT INTO label VALUES (1)").ok());
  std::optional<SqliteTransaction> second(*std::move(first));
  ASSERT_TRUE(second->Commit().ok());
  EXPECT_EQ(Count(*writer_), "1");
}

TEST_F(SqliteTransactionTest, FailedCommitIsRolledBack) {
  ASSERT_TRUE(
      writer_->Execute("CREATE TABLE vote(label INTEGER REFERENCES label(id) DEFERRABLE INITIALLY DEFERRED)").ok());
  auto transaction = SqliteTransaction::BeginWrite(*writer_);
  ASSERT_TRUE(transaction.ok()) << transaction.status();
  ASSERT_TRUE(writer_->Execute("INSERT INTO label VALUES (1); INSERT INTO vote VALUES (99);").ok());
  EXPECT_EQ(transaction->Commit().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_FALSE(writer_->in_transaction());
  EXPECT_EQ(Count(*writer_), "0");
}

TEST_F(SqliteTransactionTest, ReaderGoesOnWhileAWriteIsOpen) {
  auto reader = OpenReader();
  ASSERT_TRUE(reader.ok()) << reader.status();
  ASSERT_TRUE(writer_->Execute("INSERT INTO label VALUES (1)").ok());

  auto transaction = SqliteTransaction::BeginWrite(*writer_);
  ASSERT_TRUE(transaction.ok()) << transaction.status();
  ASSERT_TRUE(writer_->Execute("INSERT INTO label VALUES (2)").ok());
  EXPECT_EQ(Count(*reader), "1");
  ASSERT_TRUE(transaction->Commit().ok());
  EXPECT_EQ(Count(*reader), "2");
}

TEST_F(SqliteTransactionTest, SnapshotDoesNotChangeWhenTheWriterCommits) {
  auto reader = OpenReader();
  ASSERT_TRUE(reader.ok()) << reader.status();
  {
    const auto snapshot = SqliteTransaction::BeginRead(*reader);
    ASSERT_TRUE(snapshot.ok()) << snapshot.status();
    ASSERT_TRUE(writer_->Execute("INSERT INTO label VALUES (1)").ok());
    EXPECT_EQ(Count(*reader), "0");
  }
  EXPECT_EQ(Count(*reader), "1");
}

TEST_F(SqliteTransactionTest, SecondWriterIsToldThatTheDatabaseIsHeld) {
  auto other = SqliteDatabase::Open(directory_.File("log.db"), {.busy_timeout = std::chrono::milliseconds(0)});
  ASSERT_TRUE(other.ok()) << other.status();
  const auto held = SqliteTransaction::BeginWrite(*writer_);
  ASSERT_TRUE(held.ok()) << held.status();
  const auto refused = SqliteTransaction::BeginWrite(*other);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kUnavailable) << refused.status();
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("another process holds the database"));
}

}  // namespace
}  // namespace fulcrum::storage
