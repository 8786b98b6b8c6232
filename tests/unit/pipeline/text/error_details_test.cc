#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "pipeline/text/status.h"

namespace fulcrum::pipeline {
namespace {

using std::chrono::milliseconds;

google::rpc::Status Sent(const absl::Status& status) {
  google::rpc::Status rich;
  EXPECT_TRUE(rich.ParseFromString(ToGrpcStatus(status).error_details()));
  return rich;
}

TEST(ErrorDetails, TravelAsGoogleRpcHasThem) {
  absl::Status status = WithReason(absl::ResourceExhaustedError("slow down"), "RATE_LIMITED");
  status = WithRetryDelay(status, milliseconds(1500));
  const google::rpc::Status rich = Sent(status);
  EXPECT_EQ(rich.code(), 8);
  ASSERT_EQ(rich.details_size(), 2);
  bool has_delay = false, has_reason = false;
  for (const auto& detail : rich.details()) {
    google::rpc::RetryInfo retry;
    google::rpc::ErrorInfo error;
    if (detail.UnpackTo(&retry)) has_delay = retry.retry_delay().nanos() == 500'000'000;
    if (detail.UnpackTo(&error)) has_reason = error.reason() == "RATE_LIMITED" && error.domain() == "fulcrum";
  }
  EXPECT_TRUE(has_delay);
  EXPECT_TRUE(has_reason);
  const absl::Status received =
      WithSerializedDetails(absl::ResourceExhaustedError("slow down"), rich.SerializeAsString());
  EXPECT_EQ(RetryDelayOf(received), milliseconds(1500));
}

TEST(ErrorDetails, NameTheFieldsThatAreWrong) {
  const auto rich = Sent(WithFieldProblems(absl::InvalidArgumentError("no"), {{"selection.tau", "is 2"}}));
  google::rpc::BadRequest request;
  ASSERT_EQ(rich.details_size(), 1);
  ASSERT_TRUE(rich.details(0).UnpackTo(&request));
  EXPECT_EQ(request.field_violations(0).field(), "selection.tau");
  EXPECT_EQ(request.field_violations(0).description(), "is 2");
}

TEST(ErrorDetails, AreAbsentIfThereAreNone) {
  EXPECT_EQ(ToGrpcStatus(absl::NotFoundError("x")).error_details(), "");
  EXPECT_FALSE(RetryDelayOf(absl::NotFoundError("x")).has_value());
  EXPECT_FALSE(RetryDelayOf(WithSerializedDetails(absl::NotFoundError("x"), "no message at all")).has_value());
}

TEST(ErrorDetails, ControlCharactersOfForeignTextAreEscaped) {
  EXPECT_EQ(ToGrpcStatus(absl::NotFoundError(absl::string_view("no '\x1b[2J\0'", 9))).error_message(),
            "no '\\x1b[2J\\x00");
}

TEST(ErrorDetails, WhatWouldNotFitIsCutInsteadOfReplacingTheError) {
  const std::string large(100'000, 'x');
  const grpc::Status sent = ToGrpcStatus(WithFieldProblems(absl::InvalidArgumentError(large), {{"a", large}}));
  EXPECT_EQ(sent.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_LT(sent.error_message().size() + sent.error_details().size(), 8000u);
}

}  // namespace
}  // namespace fulcrum::pipeline
