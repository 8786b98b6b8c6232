// Measures the time over gRPC from the label that completes a batch to the next batch, on MNIST 3 against 5 (13,454 x
// 784) with 200 labels: compared with the sum of the stages of the round, and warm rounds compared with cold ones.
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <future>
#include <map>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "tests/benchmarks/benchmark_daemon.h"
#include "tests/benchmarks/ratio_report.h"
#include "tests/support/data_sets.h"

namespace fulcrum::benchmarks {
namespace {

using Clock = std::chrono::steady_clock;

constexpr char kData[] = "mnist_3vs5.csv.gz";
constexpr std::size_t kImported = 190;
constexpr int kBatch = 10;
constexpr int kWarmRounds = 4;

v1::CampaignSpec Spec(const std::string& name, int full_every) {
  v1::CampaignSpec spec;
  spec.set_name(name);
  spec.mutable_pool()->add_sources(kData);
  spec.add_classes("-1");
  spec.add_classes("1");
  spec.mutable_selection()->set_strategy("dbalevs");
  spec.mutable_selection()->set_batch(kBatch);
  spec.mutable_selection()->mutable_kernel()->set_sigma(2);
  spec.mutable_selection()->set_tau(0.75);
  spec.mutable_classifier()->set_full_every(full_every);
  return spec;
}

class Round {
 public:
  Round(const BenchmarkDaemon& daemon, std::string campaign, const std::vector<int>& answers)
      : daemon_(daemon), campaign_(std::move(campaign)), answers_(answers) {}

  /// Waits for the next batch and acquires all of it.
  void Take() {
    tasks_.clear();
    while (tasks_.size() < kBatch) {
      const v1::AcquireTasksResponse answer = Acquire(kBatch);
      tasks_.insert(tasks_.end(), answer.tasks().begin(), answer.tasks().end());
    }
  }

  /// Answers the batch. Returns the seconds from sending the last label to another worker receiving a task of the next
  /// batch.
  double SecondsToNextBatch() {
    Submit({tasks_.begin(), tasks_.end() - 1});
    auto next = std::async(std::launch::async, [this] { return Acquire(kBatch); });
    const auto begun = Clock::now();
    Submit({tasks_.end() - 1, tasks_.end()});
    v1::AcquireTasksResponse answer = next.get();
    while (answer.tasks_size() == 0) answer = Acquire(kBatch);
    const double seconds = std::chrono::duration<double>(Clock::now() - begun).count();
    tasks_.assign(answer.tasks().begin(), answer.tasks().end());
    while (tasks_.size() < kBatch) {
      answer = Acquire(kBatch);
      tasks_.insert(tasks_.end(), answer.tasks().begin(), answer.tasks().end());
    }
    return seconds;
  }

 private:
  v1::AcquireTasksResponse Acquire(int most) {
    grpc::ClientContext context;
    v1::AcquireTasksRequest request;
    request.set_campaign(campaign_);
    request.set_annotator("ada");
    request.set_request_id(absl::StrCat("a-", ++requests_));
    request.set_max_tasks(most);
    request.mutable_wait()->set_seconds(60);
    v1::AcquireTasksResponse response;
    Check(daemon_.labeling().AcquireTasks(&context, request, &response));
    return response;
  }

  void Submit(const std::vector<v1::Task>& tasks) {
    grpc::ClientContext context;
    v1::SubmitLabelsRequest request;
    request.set_campaign(campaign_);
    request.set_annotator("ada");
    request.set_request_id(absl::StrCat("s-", ++requests_));
    for (const v1::Task& task : tasks) {
      std::size_t row = 0;
      (void)absl::SimpleAtoi(task.item_id(), &row);
      v1::Label& label = *request.add_labels();
      label.mutable_lease()->set_lease_id(task.lease_id());
      label.mutable_lease()->set_epoch(task.epoch());
      label.set_item_id(task.item_id());
      label.set_value(absl::StrCat(answers_[row]));
    }
    v1::SubmitLabelsResponse response;
    Check(daemon_.labeling().SubmitLabels(&context, request, &response));
  }

  static void Check(const grpc::Status& status) {
    Require(status.ok() ? absl::OkStatus() : absl::UnknownError(status.error_message()));
  }

  const BenchmarkDaemon& daemon_;
  const std::string campaign_;
  const std::vector<int>& answers_;
  std::vector<v1::Task> tasks_;
  std::atomic<int> requests_ = 0;
};

/// Returns the seconds of all stages of the first `rounds` rounds, from the daemon's metrics, which are updated with
/// the batch.
double StageSeconds(const BenchmarkDaemon& daemon, const std::string& campaign, int rounds) {
  while (daemon.Metric("fulcrum_round_seconds_count", campaign) < rounds) std::this_thread::yield();
  return daemon.Metric("fulcrum_stage_seconds_sum", campaign);
}

/// Spread over the file, because it is sorted by class.
std::map<std::size_t, std::string> FirstLabels(const std::vector<int>& answers) {
  std::map<std::size_t, std::string> labels;
  for (std::size_t i = 0; i < kImported; ++i) {
    const std::size_t row = i * (answers.size() / kImported);
    labels.emplace(row, absl::StrCat(answers[row]));
  }
  return labels;
}

struct Latencies {
  std::vector<double> seconds = {};
  std::vector<double> over_stages = {};
};

Latencies Measure(const BenchmarkDaemon& daemon, const std::string& campaign, int full_every,
                  const std::vector<int>& answers, int rounds) {
  daemon.Create(Spec(campaign, full_every));
  daemon.Import(campaign, FirstLabels(answers));
  daemon.Start(campaign);
  Round round(daemon, campaign, answers);
  round.Take();
  Latencies latencies;
  for (int i = 0; i < rounds; ++i) {
    const double before = StageSeconds(daemon, campaign, i + 1);
    latencies.seconds.push_back(round.SecondsToNextBatch());
    const double stages = StageSeconds(daemon, campaign, i + 2) - before;
    latencies.over_stages.push_back(latencies.seconds.back() / stages);
    std::printf("  %s, round %d: %.3f s, %.3f of the stages' sum\n", campaign.c_str(), i + 2, latencies.seconds.back(),
                latencies.over_stages.back());
  }
  daemon.Stop(campaign);
  daemon.Delete(campaign);
  return latencies;
}

double Median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

int Run() {
  const auto path = testing::FindDataFile(kData);
  if (!path) {
    std::printf("skipped: %s is not here; set FULCRUM_DATA to its folder\n", kData);
    return 0;
  }
  const auto data = testing::LoadDataSet(kData);
  const BenchmarkDaemon daemon;
  daemon.LinkPool(kData, *path);
  PrintHeading("from the last label of a batch to the next batch, 13,454 x 784, 200 labels and more");
  const Latencies cold = Measure(daemon, "cold", /*full_every=*/1, data->labels, 2);
  const Latencies warm = Measure(daemon, "warm", /*full_every=*/0, data->labels, kWarmRounds);
  PrintAtMost("cold: latency over the sum of the stages", Median(cold.over_stages), 1.2, "x");
  PrintAtMost("warm: latency over the sum of the stages", Median(warm.over_stages), 1.2, "x");
  PrintAtLeast("warm rounds faster than cold ones by", Median(cold.seconds) / Median(warm.seconds), 3);
  return 0;
}

}  // namespace
}  // namespace fulcrum::benchmarks

int main() {
  return fulcrum::benchmarks::Run();
}
