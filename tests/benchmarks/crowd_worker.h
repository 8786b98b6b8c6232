// One labeling worker of a crowd, of either kind: it calls, or it keeps a stream open.
//
// A worker takes tasks, answers them all at once, and begins again without a pause. What it receives drives it, on the
// thread of its connection.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "fulcrum/v1/labeling_service.pb.h"
#include "tests/benchmarks/lean_client.h"
#include "tests/benchmarks/worker_crowd.h"

namespace fulcrum::benchmarks {

class CrowdWorker : public LeanCall {
 public:
  /// All of them must outlive it; it takes one off `working` when it is done.
  CrowdWorker(const CrowdOptions& options, int number, LeanConnection& connection, int& working);

  virtual void Begin() = 0;

  /// Acknowledged.
  std::int64_t labels() const { return labels_; }
  /// How long it waited for tasks, each time that it got some.
  const std::vector<double>& waits_in_milliseconds() const { return waits_; }

 protected:
  /// It has nothing to do from now on.
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

/// AcquireTasks and SubmitLabels, one call after the other.
std::unique_ptr<CrowdWorker> NewCallingWorker(const CrowdOptions& options, int number, LeanConnection& connection,
                                              int& working);
/// One Work stream.
std::unique_ptr<CrowdWorker> NewStreamingWorker(const CrowdOptions& options, int number, LeanConnection& connection,
                                                int& working);

/// Ends the program unless it is OK, a status of gRPC's.
void RequireOk(int status);
/// Ends the program where the text is no such message.
void Parse(absl::string_view text, google::protobuf::MessageLite& message);

}  // namespace fulcrum::benchmarks
