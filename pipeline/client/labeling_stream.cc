// LabelingCalls on one LabelingService.Work stream.
//
// The server sends tasks ahead, up to the credit, so that the next one is there when an answer is given. A stream that
// breaks is opened again with the same session id: the server then sends what is still leased, and what was handed out
// before is left out. A thread reads; everything else happens in the caller's thread.

#include <grpcpp/channel.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "fulcrum/v1/labeling_service.grpc.pb.h"
#include "pipeline/client/campaign_calls.h"
#include "pipeline/client/labeling_calls.h"
#include "pipeline/client/server_connection.h"
#include "pipeline/text/status.h"
#include "stages/core/status_macros.h"

namespace fulcrum::pipeline {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kAnswerTime{15'000};
constexpr milliseconds kStreamStopCheck{100};
constexpr milliseconds kNoStreamDeadline{0};
// To hear the end of a stream that this side has closed.
constexpr milliseconds kEndTime{5'000};

/// One stream: written by its owner, read by a thread.
class OpenStream {
 public:
  OpenStream(const ServerConnection& connection, v1::LabelingService::Stub& stub) : server_(connection.server()) {
    connection.Prepare(kNoStreamDeadline, context_);
    stream_ = stub.Work(&context_);
    reader_ = std::thread([this] { Read(); });
  }
  ~OpenStream() {
    context_.TryCancel();
    reader_.join();
  }

  bool Write(const v1::WorkRequest& request) { return stream_->Write(request); }
  /// Waits for what the server still sends.
  void Close() {
    stream_->WritesDone();
    Take(kEndTime, nullptr, [](const v1::WorkResponse&) { return false; });
  }

  /// The next message that `wanted` is true for; others stay. Nothing if the stream is over or the time is.
  template <typename Wanted>
  std::optional<v1::WorkResponse> Take(milliseconds time, const StopFlag* stop, Wanted wanted) {
    const auto until = std::chrono::steady_clock::now() + time;
    std::unique_lock lock(mutex_);
    while (true) {
      const auto found = std::find_if(received_.begin(), received_.end(), wanted);
      if (found != received_.end()) {
        v1::WorkResponse response = std::move(*found);
        received_.erase(found);
        return response;
      }
      const auto now = std::chrono::steady_clock::now();
      if (over_ || now >= until || (stop != nullptr && stop->raised())) return std::nullopt;
      arrived_.wait_until(lock, std::min(until, now + kStreamStopCheck));
    }
  }

  /// OK while the stream is open, and otherwise why it is not.
  absl::Status status() const {
    const std::scoped_lock lock(mutex_);
    if (!over_) return absl::OkStatus();
    return status_.ok() ? absl::UnavailableError("the server has ended the stream") : status_;
  }

 private:
  void Read() {
    v1::WorkResponse response;
    while (stream_->Read(&response)) {
      const std::scoped_lock lock(mutex_);
      received_.push_back(std::move(response));
      arrived_.notify_all();
    }
    const absl::Status status = FromGrpcStatus(stream_->Finish(), server_);
    const std::scoped_lock lock(mutex_);
    over_ = true;
    status_ = status;
    arrived_.notify_all();
  }

  const std::string server_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::WorkRequest, v1::WorkResponse>> stream_;
  mutable std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<v1::WorkResponse> received_;
  bool over_ = false;
  absl::Status status_;
  std::thread reader_;
};

class StreamLabelingCalls final : public LabelingCalls {
 public:
  StreamLabelingCalls(std::shared_ptr<const ServerConnection> connection, std::string campaign, std::string annotator,
                      int credit, const StopFlag& stop)
      : connection_(std::move(connection)),
        messages_(std::move(campaign), std::move(annotator)),
        credit_(credit),
        stop_(stop),
        session_(RequestIds().Next()),
        stub_(v1::LabelingService::NewStub(connection_->channel())) {}

  absl::StatusOr<TaskBatch> Acquire(const std::string& /*request_id*/, int most, milliseconds wait) override {
    FULCRUM_RETURN_IF_ERROR(Connect());
    CollectTasks(milliseconds(0));
    if (queued_.empty() && !over_) CollectTasks(wait);
    TaskBatch batch{.campaign_over = over_ && queued_.empty(), .waiting_for = waiting_for_};
    while (!queued_.empty() && batch.tasks.size() < static_cast<std::size_t>(most)) {
      handed_out_.insert({queued_.front().lease.lease_id, queued_.front().lease.epoch});
      batch.tasks.push_back(std::move(queued_.front()));
      queued_.pop_front();
    }
    if (!batch.tasks.empty() || batch.campaign_over) return batch;
    if (stop_.raised()) return absl::CancelledError("asked to end while waiting for tasks");
    FULCRUM_RETURN_IF_ERROR(stream_->status());
    return batch;
  }

  absl::StatusOr<std::vector<RenewResult>> Renew(const std::string& request_id,
                                                 const std::vector<LeaseName>& leases) override {
    // Tasks that were sent ahead would expire while the annotator is busy with others.
    std::vector<LeaseName> all = leases;
    for (const WorkTask& task : queued_) all.push_back(task.lease);
    v1::WorkRequest request;
    *request.mutable_renew() = messages_.Renew(request_id, all);
    FULCRUM_ASSIGN_OR_RETURN(const v1::WorkResponse response, Ask(request, &v1::WorkResponse::has_renewed));
    FULCRUM_ASSIGN_OR_RETURN(std::vector<RenewResult> results, RenewResults(all.size(), response.renewed()));
    std::erase_if(queued_, [&](const WorkTask& task) {
      const auto place = static_cast<std::size_t>(std::find(all.begin(), all.end(), task.lease) - all.begin());
      return absl::IsAborted(results[place].status);
    });
    results.resize(leases.size());
    return results;
  }

  absl::StatusOr<std::vector<SubmitResult>> Submit(const std::string& request_id,
                                                   const std::vector<LabelAnswer>& labels) override {
    v1::WorkRequest request;
    *request.mutable_submit() = messages_.Submit(request_id, labels);
    FULCRUM_ASSIGN_OR_RETURN(const v1::WorkResponse response, Ask(request, &v1::WorkResponse::has_submitted));
    return SubmitResults(labels.size(), response.submitted());
  }

  absl::StatusOr<std::vector<absl::Status>> Skip(const std::string& request_id,
                                                 const std::vector<SkipAnswer>& skips) override {
    v1::WorkRequest request;
    *request.mutable_skip() = messages_.Skip(request_id, skips);
    FULCRUM_ASSIGN_OR_RETURN(const v1::WorkResponse response, Ask(request, &v1::WorkResponse::has_skipped));
    return ItemStatuses(skips.size(), response.skipped().results());
  }

  absl::StatusOr<std::vector<absl::Status>> Release(const std::string& request_id,
                                                    const std::vector<LeaseName>& leases) override {
    v1::WorkRequest request;
    *request.mutable_release() = messages_.Release(request_id, leases);
    FULCRUM_ASSIGN_OR_RETURN(const v1::WorkResponse response, Ask(request, &v1::WorkResponse::has_released));
    return ItemStatuses(leases.size(), response.released().results());
  }

  absl::StatusOr<std::string> GetPayload(const std::string& /*item_id*/) override {
    return absl::UnimplementedError("payloads are not fetched on the stream");
  }

  std::vector<LeaseName> Close() override {
    if (stream_ != nullptr) {
      // Otherwise the server would lease other tasks as soon as these are released.
      stream_->Close();
      CollectTasks(milliseconds(0));
    }
    std::vector<LeaseName> leases;
    for (const WorkTask& task : queued_) leases.push_back(task.lease);
    return leases;
  }

 private:
  /// Opens the stream if there is none, or continues a broken one.
  absl::Status Connect() {
    if (stream_ != nullptr && stream_->status().ok()) return absl::OkStatus();
    // What had arrived on the broken stream is sent again.
    stream_.reset();
    queued_.clear();
    auto stream = std::make_unique<OpenStream>(*connection_, *stub_);
    v1::WorkRequest request;
    *request.mutable_hello() = messages_.Hello(credit_, session_);
    if (!stream->Write(request)) {
      stream->Take(kAnswerTime, nullptr, [](const v1::WorkResponse&) { return false; });
      const absl::Status status = stream->status();
      return status.ok() ? absl::UnavailableError("the stream could not be opened") : status;
    }
    stream_ = std::move(stream);
    return absl::OkStatus();
  }

  /// Takes over what the server has sent; waits for tasks, or news of them, as long as it takes at most.
  void CollectTasks(milliseconds wait) {
    const auto is_tasks = [](const v1::WorkResponse& response) { return response.has_tasks(); };
    while (const auto response = stream_->Take(wait, &stop_, is_tasks)) {
      wait = milliseconds(0);
      if (response->tasks().campaign_over()) over_ = true;
      waiting_for_.clear();
      for (const v1::WaitingFor& reason : response->tasks().waiting_for()) waiting_for_.push_back(reason.text());
      for (const v1::Task& task : response->tasks().tasks()) {
        if (!handed_out_.contains({task.lease_id(), task.epoch()})) queued_.push_back(ToTask(task));
      }
    }
  }

  absl::StatusOr<v1::WorkResponse> Ask(const v1::WorkRequest& request, bool (v1::WorkResponse::*has)() const) {
    FULCRUM_RETURN_IF_ERROR(Connect());
    if (stream_->Write(request)) {
      auto response =
          stream_->Take(kAnswerTime, nullptr, [has](const v1::WorkResponse& each) { return (each.*has)(); });
      if (response) return *std::move(response);
    } else {
      // The reason arrives with the end of the stream.
      stream_->Take(kAnswerTime, nullptr, [](const v1::WorkResponse&) { return false; });
    }
    absl::Status status = stream_->status();
    // An answer that comes later would be taken for that of the next request.
    stream_.reset();
    return status.ok() ? absl::UnavailableError("the server does not answer") : status;
  }

  const std::shared_ptr<const ServerConnection> connection_;
  const LabelingMessages messages_;
  const int credit_;
  const StopFlag& stop_;
  const std::string session_;
  const std::unique_ptr<v1::LabelingService::Stub> stub_;
  std::unique_ptr<OpenStream> stream_;
  std::deque<WorkTask> queued_;
  std::set<std::pair<std::int64_t, std::int64_t>> handed_out_;  // leases and epochs
  std::vector<std::string> waiting_for_;
  bool over_ = false;
};

/// Uses the stream unless the server, or a proxy before it, does not know it.
class AnyLabelingCalls final : public LabelingCalls {
 public:
  AnyLabelingCalls(std::unique_ptr<LabelingCalls> stream, std::unique_ptr<LabelingCalls> calls)
      : stream_(std::move(stream)), calls_(std::move(calls)) {}

  absl::StatusOr<TaskBatch> Acquire(const std::string& request_id, int most, milliseconds wait) override {
    return Try([&](LabelingCalls& calls) { return calls.Acquire(request_id, most, wait); });
  }
  absl::StatusOr<std::vector<RenewResult>> Renew(const std::string& request_id,
                                                 const std::vector<LeaseName>& leases) override {
    return Try([&](LabelingCalls& calls) { return calls.Renew(request_id, leases); });
  }
  absl::StatusOr<std::vector<SubmitResult>> Submit(const std::string& request_id,
                                                   const std::vector<LabelAnswer>& labels) override {
    return Try([&](LabelingCalls& calls) { return calls.Submit(request_id, labels); });
  }
  absl::StatusOr<std::vector<absl::Status>> Skip(const std::string& request_id,
                                                 const std::vector<SkipAnswer>& skips) override {
    return Try([&](LabelingCalls& calls) { return calls.Skip(request_id, skips); });
  }
  absl::StatusOr<std::vector<absl::Status>> Release(const std::string& request_id,
                                                    const std::vector<LeaseName>& leases) override {
    return Try([&](LabelingCalls& calls) { return calls.Release(request_id, leases); });
  }
  absl::StatusOr<std::string> GetPayload(const std::string& item_id) override { return calls_->GetPayload(item_id); }
  std::vector<LeaseName> Close() override {
    if (stream_ == nullptr) return {};
    std::vector<LeaseName> ahead = stream_->Close();
    stream_.reset();
    return ahead;
  }

 private:
  template <typename Call>
  auto Try(const Call& call) -> decltype(call(std::declval<LabelingCalls&>())) {
    if (stream_ == nullptr) return call(*calls_);
    auto result = call(*stream_);
    if (!absl::IsUnimplemented(result.status())) return result;
    stream_.reset();
    return call(*calls_);
  }

  std::unique_ptr<LabelingCalls> stream_;
  const std::unique_ptr<LabelingCalls> calls_;
};

}  // namespace

std::unique_ptr<LabelingCalls> MakeStreamLabelingCalls(std::shared_ptr<const ServerConnection> connection,
                                                       const std::string& campaign, const std::string& annotator,
                                                       int credit, const StopFlag& stop) {
  auto stream = std::make_unique<StreamLabelingCalls>(connection, campaign, annotator, credit, stop);
  return std::make_unique<AnyLabelingCalls>(std::move(stream),
                                            MakeLabelingCalls(std::move(connection), campaign, annotator, stop));
}

}  // namespace fulcrum::pipeline
