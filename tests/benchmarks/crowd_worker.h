// One labeling worker of a crowd, of either kind: it calls, or it keeps a stream open.
//
// A worker takes tasks, answers them all at once, and begins again without a pause. Its own callbacks drive it, one at
// a time; what it has counted may be read once it has said that it is done.
#pragma once

#include <chrono>
#include <cstdint>
#include <latch>
#include <memory>
#include <string>
#include <vector>

#include "fulcrum/v1/labeling_service.grpc.pb.h"
#include "tests/benchmarks/worker_crowd.h"

namespace fulcrum::benchmarks {

class CrowdWorker {
 public:
  /// All of them must outlive it; it counts `finished` down once.
  CrowdWorker(const CrowdOptions& options, int number, v1::LabelingService::Stub& stub, std::latch& finished);
  virtual ~CrowdWorker() = default;
  CrowdWorker(const CrowdWorker&) = delete;
  CrowdWorker& operator=(const CrowdWorker&) = delete;

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

  const CrowdOptions& options_;
  const std::string name_;
  v1::LabelingService::Stub& stub_;
  std::latch& finished_;
  std::int64_t requests_ = 0;

 private:
  std::chrono::steady_clock::time_point begun_;
  std::int64_t labels_ = 0;
  std::vector<double> waits_;
};

/// AcquireTasks and SubmitLabels, one call after the other.
std::unique_ptr<CrowdWorker> NewCallingWorker(const CrowdOptions& options, int number, v1::LabelingService::Stub& stub,
                                              std::latch& finished);
/// One Work stream.
std::unique_ptr<CrowdWorker> NewStreamingWorker(const CrowdOptions& options, int number,
                                                v1::LabelingService::Stub& stub, std::latch& finished);

/// Ends the program where a call failed.
void Require(const grpc::Status& status);

}  // namespace fulcrum::benchmarks
