#include "pipeline/client/outbox.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "stages/core/status_macros.h"

namespace fulcrum::pipeline {
namespace {

constexpr std::size_t kMostLabels = 1000;  // that SubmitLabels takes

}  // namespace

std::optional<GivenAnswer> Outbox::TakeBack() {
  if (waiting_.empty()) return std::nullopt;
  GivenAnswer answer = std::move(waiting_.back());
  waiting_.pop_back();
  ++summary_.undone;
  return answer;
}

std::optional<std::chrono::steady_clock::time_point> Outbox::oldest() const {
  if (waiting_.empty()) return std::nullopt;
  return waiting_.front().given_at;
}

std::vector<LeaseName> Outbox::leases() const {
  std::vector<LeaseName> leases;
  for (const GivenAnswer& answer : waiting_) leases.push_back(answer.task.lease);
  return leases;
}

absl::Status Outbox::Send(std::size_t keep, Retrier& retrier) {
  while (!sent_.empty() || waiting_.size() > keep) {
    if (sent_.empty()) {
      request_id_ = ids_.Next();
      for (std::size_t left = std::min(waiting_.size() - keep, kMostLabels); left > 0; --left) {
        GivenAnswer& answer = waiting_.front();
        sent_.push_back({answer.task.lease, std::move(answer.task.item_id), std::move(answer.value)});
        waiting_.pop_front();
      }
    }
    std::vector<SubmitResult> results;
    FULCRUM_RETURN_IF_ERROR(retrier.Call([&]() -> absl::Status {
      FULCRUM_ASSIGN_OR_RETURN(results, calls_.Submit(request_id_, sent_));
      return absl::OkStatus();
    }));
    Tally(results);
    sent_.clear();
  }
  return absl::OkStatus();
}

void Outbox::Tally(const std::vector<SubmitResult>& results) {
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (results[i].status.ok()) {
      ++summary_.accepted;
      if (results[i].late) ++summary_.late;
    } else {
      ++summary_.refused;
      summary_.last_refusal = absl::StrCat("'", sent_[i].item_id, "': ", results[i].status.message());
    }
  }
}

}  // namespace fulcrum::pipeline
