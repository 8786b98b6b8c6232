#include "pipeline/flow_state.h"

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"

namespace fulcrum::pipeline {

void FlowState::Fail(const std::string& stage, const absl::Status& status) {
  const std::scoped_lock lock(mutex_);
  if (!first_error_.ok()) return;
  first_error_ = absl::Status(status.code(), absl::StrCat(stage, ": ", status.message()));
  status.ForEachPayload(
      [this](absl::string_view type, const absl::Cord& payload) { first_error_.SetPayload(type, payload); });
  failed_.store(true, std::memory_order_release);
}

absl::Status FlowState::Result(bool complete) const {
  const std::scoped_lock lock(mutex_);
  if (!first_error_.ok()) return first_error_;
  if (!complete) return absl::CancelledError("stopped on request before the end of the input");
  return absl::OkStatus();
}

}  // namespace fulcrum::pipeline
