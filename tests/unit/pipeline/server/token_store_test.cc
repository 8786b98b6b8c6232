#include <gtest/gtest.h>

#include "pipeline/server/access_control.h"
#include "tests/support/temporary_directory.h"

namespace fulcrum::pipeline {
namespace {

TEST(TokenStore, KnowsATokenFromTheMomentItIsMadeUntilItIsRevoked) {
  const testing::TemporaryDirectory folder;
  auto tokens = TokenStore::Open(folder.path());
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  const auto token = (*tokens)->Create("ada", Role::kAnnotator);
  ASSERT_TRUE(token.ok()) << token.status();
  // Another process: the daemon reads what `fulcrum token` writes.
  auto other = TokenStore::Open(folder.path());
  ASSERT_TRUE(other.ok()) << other.status();
  const auto entry = (*other)->Find(*token);
  ASSERT_TRUE(entry.ok()) << entry.status();
  EXPECT_EQ(entry->name, "ada");
  EXPECT_EQ(entry->role, Role::kAnnotator);
  EXPECT_EQ((*other)->Find(*token + "x").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ((*tokens)->Create("ada", Role::kAdmin).status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_TRUE((*tokens)->Revoke("ada").ok());
  EXPECT_EQ((*other)->Find(*token).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ((*tokens)->Revoke("ada").code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE((*tokens)->List()->empty());
}

TEST(TokenStore, TokensThatCannotBeReadAreNotUnknown) {
  const testing::TemporaryDirectory folder;
  auto store = TokenStore::Open(folder.path());
  ASSERT_TRUE(store.ok()) << store.status();
  const auto token = (*store)->Create("ada", Role::kAnnotator);
  ASSERT_TRUE(token.ok()) << token.status();
  auto damage = storage::SqliteDatabase::Open(folder.File("tokens.db"));
  ASSERT_TRUE(damage.ok() && damage->Execute("DROP TABLE token").ok());
  EXPECT_EQ((*store)->Find(*token).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ((*store)->List().status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ((*store)->Create("bob", Role::kReader).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ((*store)->Revoke("ada").code(), absl::StatusCode::kUnavailable);
}

TEST(TokenStore, TwoTokensAreNeverTheSame) {
  const testing::TemporaryDirectory folder;
  auto tokens = TokenStore::Open(folder.path());
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  EXPECT_NE(*(*tokens)->Create("a", Role::kReader), *(*tokens)->Create("b", Role::kReader));
}

}  // namespace
}  // namespace fulcrum::pipeline
