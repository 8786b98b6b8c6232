// The calls of fulcrum.v1.LabelingService as a worker makes them; what makes the calls needs no types of gRPC.
//
// One campaign and one annotator. Each method is one attempt: the caller repeats it with the same request id and
// content. Not thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "fulcrum/v1/labeling_service.pb.h"

namespace fulcrum::pipeline {

class ServerConnection;
class StopFlag;

/// Names a lease.
struct LeaseName {
  std::int64_t lease_id = 0;
  std::int64_t epoch = 0;

  friend bool operator==(const LeaseName&, const LeaseName&) = default;
};

/// An example that this worker has reserved.
struct WorkTask {
  LeaseName lease = {};
  std::string item_id = {};
  std::int64_t round = 0;
  absl::Time expires_at = absl::InfiniteFuture();  ///< by the server's clock
  std::string payload = {};
  std::size_t large_payload_bytes = 0;  ///< of a payload that is too large to be here
  std::vector<std::string> classes = {};
  std::string question = {};
};

struct TaskBatch {
  std::vector<WorkTask> tasks = {};
  bool campaign_over = false;
  std::vector<std::string> waiting_for = {};  ///< without tasks: what the campaign waits for
};

struct LabelAnswer {
  LeaseName lease = {};
  std::string item_id = {};
  std::string value = {};
};

struct SubmitResult {
  absl::Status status = {};
  bool late = false;
};

enum class SkipReason { kUnsure = 1, kBadItem = 2, kNotNow = 3 };

struct SkipAnswer {
  LeaseName lease = {};
  SkipReason reason = SkipReason::kUnsure;
};

struct RenewResult {
  absl::Status status = {};  ///< Aborted: the lease has ended
  absl::Time expires_at = absl::InfiniteFuture();
};

class LabelingCalls {
 public:
  virtual ~LabelingCalls() = default;

  /// Waits up to `wait` where there is nothing to do. Cancelled if the command should end meanwhile.
  virtual absl::StatusOr<TaskBatch> Acquire(const std::string& request_id, int most,
                                            std::chrono::milliseconds wait) = 0;
  // The others give a result for each element, in order. An error of the whole call is also given where an element
  // could not be handled for a reason that may pass.
  virtual absl::StatusOr<std::vector<RenewResult>> Renew(const std::string& request_id,
                                                         const std::vector<LeaseName>& leases) = 0;
  virtual absl::StatusOr<std::vector<SubmitResult>> Submit(const std::string& request_id,
                                                           const std::vector<LabelAnswer>& labels) = 0;
  virtual absl::StatusOr<std::vector<absl::Status>> Skip(const std::string& request_id,
                                                         const std::vector<SkipAnswer>& skips) = 0;
  virtual absl::StatusOr<std::vector<absl::Status>> Release(const std::string& request_id,
                                                            const std::vector<LeaseName>& leases) = 0;
  /// The whole payload of an example whose task says that it is large.
  virtual absl::StatusOr<std::string> GetPayload(const std::string& item_id) = 0;
  /// Takes no more tasks. Gives the leases of those that the server has sent and Acquire has not given.
  virtual std::vector<LeaseName> Close() { return {}; }
};

/// Over gRPC. `stop` breaks off Acquire, and must outlive the calls; the others are short and are left to end.
std::unique_ptr<LabelingCalls> MakeLabelingCalls(std::shared_ptr<const ServerConnection> connection,
                                                 std::string campaign, std::string annotator, const StopFlag& stop);

/// The same on a Work stream, which is opened again when it breaks; calls if the server does not know it. `credit` is
/// the number of tasks to hold.
std::unique_ptr<LabelingCalls> MakeStreamLabelingCalls(std::shared_ptr<const ServerConnection> connection,
                                                       const std::string& campaign, const std::string& annotator,
                                                       int credit, const StopFlag& stop);

// The messages of LabelingService in the terms of LabelingCalls, for calls and for the stream.
//
// A plain value and pure functions; thread-safe.

/// Requests of one annotator for one campaign.
class LabelingMessages {
 public:
  LabelingMessages(std::string campaign, std::string annotator)
      : campaign_(std::move(campaign)), annotator_(std::move(annotator)) {}

  v1::AcquireTasksRequest Acquire(const std::string& request_id, int most, std::chrono::milliseconds wait) const;
  v1::RenewLeasesRequest Renew(const std::string& request_id, const std::vector<LeaseName>& leases) const;
  v1::SubmitLabelsRequest Submit(const std::string& request_id, const std::vector<LabelAnswer>& labels) const;
  v1::SkipTasksRequest Skip(const std::string& request_id, const std::vector<SkipAnswer>& skips) const;
  v1::ReleaseTasksRequest Release(const std::string& request_id, const std::vector<LeaseName>& leases) const;
  v1::WorkRequest::Hello Hello(int credit, const std::string& session_id) const;
  v1::GetPayloadRequest Payload(const std::string& item_id) const;

 private:
  template <typename Message>
  Message Request(const std::string& request_id) const;

  std::string campaign_;
  std::string annotator_;
};

WorkTask ToTask(const v1::Task& task);
TaskBatch ToBatch(const v1::AcquireTasksResponse& response);

// The results of a request with so many elements; Internal if the server gave another number of them. An element that
// failed for a reason that may pass fails the whole call: a repeat gives the stored answers of the others.
absl::StatusOr<std::vector<RenewResult>> RenewResults(std::size_t wanted, const v1::RenewLeasesResponse& response);
absl::StatusOr<std::vector<SubmitResult>> SubmitResults(std::size_t wanted, const v1::SubmitLabelsResponse& response);
absl::StatusOr<std::vector<absl::Status>> ItemStatuses(
    std::size_t wanted, const google::protobuf::RepeatedPtrField<v1::ItemStatus>& results);

}  // namespace fulcrum::pipeline
