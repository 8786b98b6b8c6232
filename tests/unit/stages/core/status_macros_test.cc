#include "stages/core/status_macros.h"

#include <memory>

#include "gtest/gtest.h"

namespace fulcrum {
namespace {

absl::StatusOr<std::unique_ptr<int>> Make(bool fail) {
  if (fail) return absl::NotFoundError("nothing here");
  return std::make_unique<int>(7);
}

absl::StatusOr<int> Unwrap(bool fail) {
  FULCRUM_ASSIGN_OR_RETURN(const std::unique_ptr<int> value, Make(fail));
  return *value;
}

absl::Status Check(bool fail, bool& went_on) {
  FULCRUM_RETURN_IF_ERROR(Unwrap(fail).status());
  went_on = true;
  return absl::OkStatus();
}

TEST(StatusMacros, AssignMovesTheValueOut) {
  EXPECT_EQ(*Unwrap(false), 7);
}

TEST(StatusMacros, AnErrorReturnsAtOnce) {
  EXPECT_EQ(Unwrap(true).status(), absl::NotFoundError("nothing here"));
  bool went_on = false;
  EXPECT_EQ(Check(true, went_on), absl::NotFoundError("nothing here"));
  EXPECT_FALSE(went_on);
  EXPECT_TRUE(Check(false, went_on).ok());
  EXPECT_TRUE(went_on);
}

}  // namespace
}  // namespace fulcrum
