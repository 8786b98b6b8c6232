// One labeling worker of a crowd, which either makes unary calls or keeps a stream open.
//
// A worker acquires tasks, answers all of them at once, and repeats without a pause. It runs on the thread of its
// connection, driven by the messages that it receives.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "fulcrum/v1/labeling_service.pb.h"
#include "tests/benchmarks/crowd/lean_client.h"
#include "tests/benchmarks/crowd/worker_crowd.h"

namespace fulcrum::benchmarks {

class CrowdWorker : public LeanCall {
 public:
  /// All arguments must outlive the worker. It decrements `working` when it is done.
  CrowdWorker(const CrowdOptions& options, int number, LeanConnection& connection, int& working);

  virtual void Begin() = 0;

  /// Number of acknowledged labels.
  std::int64_t labels() const { return labels_; }
  /// Waiting times for tasks.
  const std::vector<double>& waits_in_milliseconds() const { return waits_; }

 protected:
  /// Called when the worker becomes idle.
  void BeginWait() { begun_ = std::chrono::steady_clock::now(); }
  void EndWait();
  /// Answers all tasks in one request.
  void Answer(const v1::AcquireTasksResponse& tasks, v1::SubmitLabelsRequest& submit);
  void Count(const v1::SubmitLabelsResponse& results);
  bool has_given_all() const { return options_.labels_each > 0 && labels_ >= options_.labels_each; }

  void Finish() { --working_; }

  const CrowdOptions& options_;
  const std::string name_;
  LeanConnection& connection_;
  std::int64_t requests_ = 0;

 private:
  int& working_;
  std::chrono::steady_clock::time_point begun_;
  std::int64_t labels_ = 0;
  std::vector<double> waits_;
};

/// Uses AcquireTasks and SubmitLabels, one call after the other.
std::unique_ptr<CrowdWorker> NewCallingWorker(const CrowdOptions& options, int number, LeanConnection& connection,
                                              int& working);
/// Uses one Work stream.
std::unique_ptr<CrowdWorker> NewStreamingWorker(const CrowdOptions& options, int number, LeanConnection& connection,
                                                int& working);

/// Exits unless the gRPC status is OK.
void RequireOk(int status);
/// Exits if the text cannot be parsed as the message.
void Parse(absl::string_view text, google::protobuf::MessageLite& message);

}  // namespace fulcrum::benchmarks
