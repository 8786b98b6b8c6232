#include "tests/benchmarks/worker_crowd.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <optional>

#include "absl/strings/str_cat.h"

namespace fulcrum::benchmarks {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kWorkersAConnection = 50;

std::shared_ptr<grpc::Channel> NewConnection(int port) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(absl::StrCat("127.0.0.1:", port), grpc::InsecureChannelCredentials(), arguments);
}

void Require(const grpc::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "a call failed: %s\n", status.error_message().c_str());
  std::exit(1);
}

class Worker {
 public:
  Worker(const CrowdOptions& options, int number, v1::LabelingService::Stub& stub, std::latch& finished)
      : options_(options), name_(absl::StrCat("worker-", number)), stub_(stub), finished_(finished) {}

  void Acquire() {
    if (options_.labels_each > 0 && labels_ >= options_.labels_each) return finished_.count_down();
    context_.emplace();
    acquire_.set_campaign(options_.campaign);
    acquire_.set_annotator(name_);
    acquire_.set_request_id(absl::StrCat(options_.request_prefix, "-a-", ++requests_));
    acquire_.set_max_tasks(options_.tasks_a_call);
    acquire_.mutable_wait()->set_seconds(options_.wait.count());
    begun_ = Clock::now();
    stub_.async()->AcquireTasks(&*context_, &acquire_, &tasks_, [this](const grpc::Status& status) {
      Require(status);
      Submit();
    });
  }

  std::int64_t labels() const { return labels_; }
  const std::vector<double>& milliseconds() const { return milliseconds_; }

 private:
  void Submit() {
    if (tasks_.campaign_over()) return finished_.count_down();
    if (tasks_.tasks_size() == 0) return Acquire();
    milliseconds_.push_back(std::chrono::duration<double, std::milli>(Clock::now() - begun_).count());
    submit_.Clear();
    submit_.set_campaign(options_.campaign);
    submit_.set_annotator(name_);
    submit_.set_request_id(absl::StrCat(options_.request_prefix, "-s-", requests_));
    for (const v1::Task& task : tasks_.tasks()) {
      v1::Label& label = *submit_.add_labels();
      label.mutable_lease()->set_lease_id(task.lease_id());
      label.mutable_lease()->set_epoch(task.epoch());
      label.set_item_id(task.item_id());
      label.set_value(task.classes(static_cast<int>(task.lease_id() % task.classes_size())));
    }
    context_.emplace();
    stub_.async()->SubmitLabels(&*context_, &submit_, &results_, [this](const grpc::Status& status) {
      Require(status);
      for (const auto& result : results_.results()) labels_ += result.status().code() == 0 ? 1 : 0;
      Acquire();
    });
  }

  const CrowdOptions& options_;
  const std::string name_;
  v1::LabelingService::Stub& stub_;
  std::latch& finished_;
  std::optional<grpc::ClientContext> context_;
  v1::AcquireTasksRequest acquire_;
  v1::AcquireTasksResponse tasks_;
  v1::SubmitLabelsRequest submit_;
  v1::SubmitLabelsResponse results_;
  Clock::time_point begun_;
  std::int64_t requests_ = 0;
  std::int64_t labels_ = 0;
  std::vector<double> milliseconds_;
};

double ProcessorSeconds() {
  timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace

double Percentile(const std::vector<double>& sorted, double share) {
  return sorted.empty() ? 0 : sorted[static_cast<std::size_t>(share * static_cast<double>(sorted.size() - 1))];
}

CrowdResult RunCrowd(const CrowdOptions& options) {
  std::latch finished(options.workers);
  std::vector<std::unique_ptr<v1::LabelingService::Stub>> stubs;
  std::vector<std::unique_ptr<Worker>> workers;
  for (int i = 0; i < options.workers; ++i) {
    if (i % kWorkersAConnection == 0) stubs.push_back(v1::LabelingService::NewStub(NewConnection(options.port)));
    workers.push_back(std::make_unique<Worker>(options, i, *stubs.back(), finished));
  }
  const double processor_before = ProcessorSeconds();
  const auto start = Clock::now();
  for (const auto& worker : workers) worker->Acquire();
  finished.wait();
  CrowdResult result{.seconds = std::chrono::duration<double>(Clock::now() - start).count(),
                     .processor_seconds = ProcessorSeconds() - processor_before};
  for (const auto& worker : workers) {
    result.labels += worker->labels();
    const std::vector<double>& took = worker->milliseconds();
    if (took.empty()) continue;
    result.first_acquire_milliseconds.push_back(took.front());
    result.acquire_milliseconds.insert(result.acquire_milliseconds.end(), took.begin() + 1, took.end());
  }
  std::ranges::sort(result.first_acquire_milliseconds);
  std::ranges::sort(result.acquire_milliseconds);
  return result;
}

}  // namespace fulcrum::benchmarks
