#include <grpcpp/grpcpp.h>

#include <optional>

#include "absl/strings/str_cat.h"
#include "tests/benchmarks/crowd_worker.h"

namespace fulcrum::benchmarks {
namespace {

class CallingWorker final : public CrowdWorker {
 public:
  using CrowdWorker::CrowdWorker;

  void Begin() override { Acquire(); }

 private:
  void Acquire() {
    if (has_given_all()) return finished_.count_down();
    context_.emplace();
    acquire_.set_campaign(options_.campaign);
    acquire_.set_annotator(name_);
    acquire_.set_request_id(absl::StrCat(options_.request_prefix, "-a-", ++requests_));
    acquire_.set_max_tasks(options_.tasks_a_call);
    acquire_.mutable_wait()->set_seconds(options_.wait.count());
    BeginWait();
    stub_.async()->AcquireTasks(&*context_, &acquire_, &tasks_, [this](const grpc::Status& status) {
      Require(status);
      Submit();
    });
  }

  void Submit() {
    if (tasks_.campaign_over()) return finished_.count_down();
    if (tasks_.tasks_size() == 0) return Acquire();
    EndWait();
    Answer(tasks_, submit_);
    context_.emplace();
    stub_.async()->SubmitLabels(&*context_, &submit_, &results_, [this](const grpc::Status& status) {
      Require(status);
      Count(results_);
      Acquire();
    });
  }

  std::optional<grpc::ClientContext> context_;
  v1::AcquireTasksRequest acquire_;
  v1::AcquireTasksResponse tasks_;
  v1::SubmitLabelsRequest submit_;
  v1::SubmitLabelsResponse results_;
};

}  // namespace

std::unique_ptr<CrowdWorker> NewCallingWorker(const CrowdOptions& options, int number, v1::LabelingService::Stub& stub,
                                              std::latch& finished) {
  return std::make_unique<CallingWorker>(options, number, stub, finished);
}

}  // namespace fulcrum::benchmarks
