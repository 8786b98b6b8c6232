#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <string>

#include "storage/sqlite/sqlite.h"
#include "tests/support/temporary_directory.h"

namespace fulcrum::storage {
namespace {

using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using namespace std::string_literals;  // NOLINT(google-build-using-namespace): the way to get ""s

class SqliteStatementTest : public ::testing::Test {
 protected:
  SqliteStatementTest() : database_(SqliteDatabase::Open(directory_.File("statement.db"))) {}

  void SetUp() override {
    ASSERT_TRUE(database_.ok()) << database_.status();
    ASSERT_TRUE(database_->Execute("CREATE TABLE t(id INTEGER PRIMARY KEY, i, d, s, b)").ok());
  }

  SqliteStatement Prepare(const std::string& sql) {
    auto statement = database_->Prepare(sql);
    EXPECT_TRUE(statement.ok()) << statement.status();
    return *std::move(statement);
  }

  const testing::TemporaryDirectory directory_;
  absl::StatusOr<SqliteDatabase> database_;
};

TEST_F(SqliteStatementTest, EveryTypeComesBackAsItWentIn) {
  const std::string text = "with a \0 inside and ümläuts"s;
  const std::array bytes = {std::byte{0}, std::byte{255}, std::byte{7}};
  SqliteStatement insert = Prepare("INSERT INTO t(i, d, s, b) VALUES (?1, ?2, ?3, ?4)");
  ASSERT_TRUE(insert.Bind(1, std::numeric_limits<std::int64_t>::min()).ok());
  ASSERT_TRUE(insert.Bind(2, 0.1).ok());
  ASSERT_TRUE(insert.Bind(3, std::string_view(text)).ok());
  ASSERT_TRUE(insert.Bind(4, bytes).ok());
  ASSERT_TRUE(insert.Run().ok());
  EXPECT_EQ(database_->last_insert_row_id(), 1);
  EXPECT_EQ(database_->changes(), 1);

  SqliteStatement select = Prepare("SELECT i, d, s, b FROM t");
  ASSERT_TRUE(*select.Step());
  EXPECT_EQ(select.ColumnInt64(0), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(select.ColumnDouble(1), 0.1);
  EXPECT_EQ(select.ColumnText(2), text);
  EXPECT_THAT(select.ColumnBytes(3), ElementsAreArray(bytes));
  EXPECT_FALSE(*select.Step());
}

TEST_F(SqliteStatementTest, TextInPlaceIsReadWhenTheStatementRuns) {
  SqliteStatement insert = Prepare("INSERT INTO t(i, s) VALUES (?1, ?2)");
  std::string text = "before \0 it ran"s;
  ASSERT_TRUE(insert.BindInPlace(1, {}).ok());
  ASSERT_TRUE(insert.BindInPlace(2, text).ok());
  text[0] = 'B';
  ASSERT_TRUE(insert.Run().ok());
  text[0] = 'x';

  SqliteStatement select = Prepare("SELECT i, s FROM t");
  ASSERT_TRUE(*select.Step());
  EXPECT_FALSE(select.ColumnIsNull(0));
  EXPECT_EQ(select.ColumnText(0), "");
  EXPECT_EQ(select.ColumnText(1), "Before \0 it ran"s);
}

TEST_F(SqliteStatementTest, NullIsNotEmpty) {
  SqliteStatement insert = Prepare("INSERT INTO t(i, d, s, b) VALUES (?1, ?2, ?3, ?4)");
  ASSERT_TRUE(insert.BindNull(1).ok());
  ASSERT_TRUE(insert.Bind(3, std::string_view()).ok());
  ASSERT_TRUE(insert.Bind(4, std::span<const std::byte>()).ok());
  ASSERT_TRUE(insert.Run().ok());

  SqliteStatement select = Prepare("SELECT i, d, s, b FROM t");
  ASSERT_TRUE(*select.Step());
  EXPECT_TRUE(select.ColumnIsNull(0));
  EXPECT_TRUE(select.ColumnIsNull(1));  // never bound
  EXPECT_FALSE(select.ColumnIsNull(2));
  EXPECT_EQ(select.ColumnText(2), "");
  EXPECT_FALSE(select.ColumnIsNull(3));
  EXPECT_TRUE(select.ColumnBytes(3).empty());
}

TEST_F(SqliteStatementTest, IsUsedAgainAfterReset) {
  SqliteStatement insert = Prepare("INSERT INTO t(i, s) VALUES (?1, ?2)");
  for (std::int64_t i = 0; i < 100; ++i) {
    ASSERT_TRUE(insert.Bind(1, i).ok());
    ASSERT_TRUE(insert.Run().ok());
  }
  SqliteStatement select = Prepare("SELECT i FROM t WHERE i >= ?1 ORDER BY i");
  for (const std::int64_t first : {0, 90}) {
    ASSERT_TRUE(select.Bind(1, first).ok());
    for (std::int64_t i = first; i < 100; ++i) {
      ASSERT_TRUE(*select.Step());
      EXPECT_EQ(select.ColumnInt64(0), i);
    }
    EXPECT_FALSE(*select.Step());
    select.Reset();
  }
}

TEST_F(SqliteStatementTest, KeyThatIsTakenAlreadyExistsAndTheStatementGoesOn) {
  SqliteStatement insert = Prepare("INSERT INTO t(id) VALUES (?1)");
  ASSERT_TRUE(insert.Bind(1, std::int64_t{5}).ok());
  ASSERT_TRUE(insert.Run().ok());
  const absl::Status again = insert.Run();
  EXPECT_EQ(again.code(), absl::StatusCode::kAlreadyExists) << again;
  EXPECT_THAT(std::string(again.message()), HasSubstr("INSERT INTO t(id)"));
  ASSERT_TRUE(insert.Bind(1, std::int64_t{6}).ok());
  EXPECT_TRUE(insert.Run().ok());
}

TEST_F(SqliteStatementTest, ParameterThatDoesNotExistIsNamed) {
  SqliteStatement insert = Prepare("INSERT INTO t(i) VALUES (?1)");
  const absl::Status status = insert.Bind(2, 1.0);
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), HasSubstr("parameter 2"));
}

}  // namespace
}  // namespace fulcrum::storage
