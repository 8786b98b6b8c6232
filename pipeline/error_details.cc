#include "pipeline/error_details.h"

#include <google/protobuf/util/time_util.h>

#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace fulcrum::pipeline {
namespace {

using google::protobuf::util::TimeUtil;

constexpr char kDomain[] = "fulcrum";

std::string TypeUrl(const google::protobuf::Message& message) {
  return absl::StrCat("type.googleapis.com/", message.GetTypeName());
}

absl::Status With(absl::Status status, const google::protobuf::Message& detail) {
  status.SetPayload(TypeUrl(detail), absl::Cord(detail.SerializeAsString()));
  return status;
}

}  // namespace

absl::Status WithRetryDelay(absl::Status status, std::chrono::milliseconds delay) {
  google::rpc::RetryInfo info;
  *info.mutable_retry_delay() = TimeUtil::MillisecondsToDuration(delay.count());
  return With(std::move(status), info);
}

std::optional<std::chrono::milliseconds> RetryDelayOf(const absl::Status& status) {
  google::rpc::RetryInfo info;
  const auto payload = status.GetPayload(TypeUrl(info));
  if (!payload || !info.ParseFromString(std::string(*payload))) return std::nullopt;
  return std::chrono::milliseconds(TimeUtil::DurationToMilliseconds(info.retry_delay()));
}

absl::Status WithReason(absl::Status status, const std::string& reason) {
  google::rpc::ErrorInfo info;
  info.set_reason(reason);
  info.set_domain(kDomain);
  return With(std::move(status), info);
}

absl::Status WithFieldProblems(absl::Status status, const std::vector<FieldProblem>& problems) {
  google::rpc::BadRequest request;
  for (const FieldProblem& problem : problems) {
    auto& violation = *request.add_field_violations();
    violation.set_field(problem.field);
    violation.set_description(problem.what);
  }
  return With(std::move(status), request);
}

std::string SerializeDetails(const absl::Status& status) {
  google::rpc::Status rich;
  status.ForEachPayload([&](absl::string_view type, const absl::Cord& payload) {
    google::protobuf::Any& detail = *rich.add_details();
    detail.set_type_url(std::string(type));
    detail.set_value(std::string(payload));
  });
  if (rich.details().empty()) return {};
  rich.set_code(status.raw_code());
  return rich.SerializeAsString();
}

absl::Status WithSerializedDetails(absl::Status status, const std::string& details) {
  google::rpc::Status rich;
  if (details.empty() || !rich.ParseFromString(details)) return status;
  for (const google::protobuf::Any& detail : rich.details()) {
    status.SetPayload(detail.type_url(), absl::Cord(detail.value()));
  }
  return status;
}

}  // namespace fulcrum::pipeline
