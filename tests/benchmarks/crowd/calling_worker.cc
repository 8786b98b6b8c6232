#include "absl/strings/str_cat.h"
#include "tests/benchmarks/crowd/crowd_worker.h"

namespace fulcrum::benchmarks {
namespace {

constexpr char kAcquire[] = "/fulcrum.v1.LabelingService/AcquireTasks";
constexpr char kSubmit[] = "/fulcrum.v1.LabelingService/SubmitLabels";

class CallingWorker final : public CrowdWorker {
 public:
  using CrowdWorker::CrowdWorker;

  void Begin() override { Acquire(); }

  void OnMessage(absl::string_view message) override {
    if (acquiring_) return Parse(message, tasks_);
    Parse(message, results_);
  }

  void OnEnd(int status) override {
    RequireOk(status);
    if (acquiring_) return Submit();
    Count(results_);
    Acquire();
  }

 private:
  void Acquire() {
    if (has_given_all()) return Finish();
    acquiring_ = true;
    acquire_.set_campaign(options_.campaign);
    acquire_.set_annotator(name_);
    acquire_.set_request_id(absl::StrCat(options_.request_prefix, "-a-", ++requests_));
    acquire_.set_max_tasks(options_.tasks_a_call);
    acquire_.mutable_wait()->set_seconds(options_.wait.count());
    BeginWait();
    connection_.Call(kAcquire, acquire_, *this);
  }

  void Submit() {
    if (tasks_.campaign_over()) return Finish();
    if (tasks_.tasks_size() == 0) return Acquire();
    EndWait();
    acquiring_ = false;
    Answer(tasks_, submit_);
    connection_.Call(kSubmit, submit_, *this);
  }

  bool acquiring_ = true;
  v1::AcquireTasksRequest acquire_;
  v1::AcquireTasksResponse tasks_;
  v1::SubmitLabelsRequest submit_;
  v1::SubmitLabelsResponse results_;
};

}  // namespace

std::unique_ptr<CrowdWorker> NewCallingWorker(const CrowdOptions& options, int number, LeanConnection& connection,
                                              int& working) {
  return std::make_unique<CallingWorker>(options, number, connection, working);
}

}  // namespace fulcrum::benchmarks
