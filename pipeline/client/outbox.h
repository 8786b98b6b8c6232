// Answers on their way to the server.
//
// An answer waits here until it is sent; a request that was sent keeps its id and content until the server has said
// what became of it, so that no answer is lost or given twice when the server goes away in between. Not thread-safe.
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "pipeline/client/labeling_calls.h"
#include "pipeline/client/request_ids.h"
#include "pipeline/client/retry.h"
#include "pipeline/client/work_summary.h"

namespace fulcrum::pipeline {

/// An answer with its task, which comes back where the answer is undone.
struct GivenAnswer {
  WorkTask task = {};
  std::string value = {};
  std::chrono::steady_clock::time_point given_at = {};
};

class Outbox {
 public:
  /// All must outlive it.
  Outbox(LabelingCalls& calls, RequestIds& ids, WorkSummary& summary) : calls_(calls), ids_(ids), summary_(summary) {}

  void Add(GivenAnswer answer) { waiting_.push_back(std::move(answer)); }
  /// Takes the last answer back, unless it has been sent.
  std::optional<GivenAnswer> TakeBack();
  /// Sends all but the last `keep` answers. Where it fails, calling it again goes on with the same request.
  absl::Status Send(std::size_t keep, Retrier& retrier);

  std::size_t waiting() const { return waiting_.size(); }
  /// Answers the server has not confirmed.
  std::size_t unconfirmed() const { return waiting_.size() + sent_.size(); }
  /// Of the oldest answer that waits.
  std::optional<std::chrono::steady_clock::time_point> oldest() const;
  /// Leases of answers that wait.
  std::vector<LeaseName> leases() const;

 private:
  void Tally(const std::vector<SubmitResult>& results);

  LabelingCalls& calls_;
  RequestIds& ids_;
  WorkSummary& summary_;
  std::deque<GivenAnswer> waiting_;
  std::vector<LabelAnswer> sent_;  // of the request below, unconfirmed
  std::string request_id_;
};

}  // namespace fulcrum::pipeline
