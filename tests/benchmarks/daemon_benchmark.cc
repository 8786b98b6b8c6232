// Compares the daemon with 500 labeling workers with its store without a network. Also measures how long a worker waits
// for tasks and, with --soak SECONDS, whether memory stays constant while campaigns are created and deleted. --calls
// and --streams select one kind of worker.
//
// The workers run in a separate process on the same machine, without pauses between requests. The machine is fully
// loaded, which is the maximum load of 500 workers. The workers use HTTP/2 without the gRPC client, which takes three
// times as much processor time. Tasks are always available. The store benchmark has the same number of workers with the
// same tasks and labels, so both rates are for the same commits. On a stream the wait for tasks starts when the
// preceding labels are sent, so the target for AcquireTasks applies to calls only.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <latch>
#include <thread>

#include "absl/strings/str_cat.h"
#include "stages/core/random.h"
#include "storage/campaign_store.h"
#include "storage/rules/label_rules.h"
#include "storage/rules/lease_rules.h"
#include "storage/rules/round_rules.h"
#include "tests/benchmarks/benchmark_daemon.h"
#include "tests/benchmarks/crowd/worker_crowd.h"
#include "tests/benchmarks/ratio_report.h"

namespace fulcrum::benchmarks {
namespace {

constexpr int kWorkers = 500;
constexpr int kTasksACall = 10;
constexpr int kLabelsEach = 1000;
constexpr int kLabels = kWorkers * kLabelsEach;
// A batch that is never completed: the next round is not measured here, and a stream holds tasks when it ends.
constexpr int kPoolRows = kLabels + 2 * kWorkers * kTasksACall;
constexpr int kRepeats = 5;

std::string RandomPool(int rows) {
  Random random(5);
  std::string text = "f0,f1\n";
  for (int row = 0; row < rows; ++row) absl::StrAppend(&text, random.Normal(), ",", random.Normal(), "\n");
  return text;
}

v1::CampaignSpec Spec(const std::string& name, int batch) {
  v1::CampaignSpec spec;
  spec.set_name(name);
  spec.mutable_pool()->add_sources(absl::StrCat("pool-", name.substr(0, 4), ".csv"));
  spec.add_classes("no");
  spec.add_classes("yes");
  spec.mutable_selection()->set_strategy("random");
  spec.mutable_selection()->set_batch(batch);
  return spec;
}

/// Two labels, so that the strategy selects the first batch instead of herding.
void ImportFirstLabels(const BenchmarkDaemon& daemon, const std::string& campaign) {
  daemon.Import(campaign, {{0, "no"}, {1, "yes"}});
}

/// The same tasks and labels, with the same number of workers that call the store directly.
class StoreCrowd {
 public:
  StoreCrowd() : finished_(kWorkers) {
    auto created = storage::CampaignStore::Create(directory_.File("campaign"), storage::CampaignSettings{});
    Require(created.status());
    store_ = *std::move(created);
    storage::CommitBatchRequest batch{.round = 1};
    for (int i = 0; i < kPoolRows; ++i) batch.items.push_back({absl::StrCat(i), 0});
    Require(store_->Run(storage::CommitBatch, batch).status());
  }

  double Seconds() {
    const auto start = std::chrono::steady_clock::now();
    for (int worker = 0; worker < kWorkers; ++worker) Acquire(worker, 0);
    finished_.wait();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

 private:
  void Acquire(int worker, int done) {
    if (done == kLabelsEach) return finished_.count_down();
    store_->Start(
        storage::AcquireTasks,
        {.annotator = absl::StrCat("worker-", worker), .request_id = absl::StrCat("a-", done), .most = kTasksACall},
        [this, worker, done](absl::StatusOr<storage::AcquireAnswer> answer) {
          Require(answer.status());
          Submit(worker, done, answer->leases);
        });
  }

  void Submit(int worker, int done, const std::vector<storage::GrantedLease>& leases) {
    std::vector<storage::SubmitRequest> labels;
    for (const storage::GrantedLease& lease : leases) {
      labels.push_back({.annotator = absl::StrCat("worker-", worker),
                        .request_id = absl::StrCat("s-", lease.lease),
                        .lease = lease.lease,
                        .epoch = lease.epoch,
                        .item = lease.item,
                        .value = "yes"});
    }
    store_->StartAll(storage::SubmitLabel, std::move(labels),
                     [this, worker, done](const std::vector<absl::StatusOr<storage::LabelAnswer>>& answers) {
                       for (const auto& answer : answers) Require(answer.status());
                       Acquire(worker, done + kTasksACall);
                     });
  }

  testing::TemporaryDirectory directory_;
  std::latch finished_;
  std::unique_ptr<storage::CampaignStore> store_;
};

/// The result of one run of a crowd, with the processor time of the daemon during the run.
struct DaemonRun {
  CrowdResult crowd = {};
  double daemon_processor_seconds = 0;

  double rate() const { return static_cast<double>(crowd.labels) / crowd.seconds; }
};

DaemonRun RunDaemonCrowd(const BenchmarkDaemon& daemon, bool streams, int repeat) {
  const std::string name = absl::StrCat("rate-", streams ? "streams" : "calls", repeat);
  daemon.Create(Spec(name, kPoolRows));
  ImportFirstLabels(daemon, name);
  daemon.Start(name);
  daemon.WaitForTasks(name);
  const double before = ProcessorSeconds();
  DaemonRun run{.crowd = RunCrowdProcess({.port = daemon.port(),
                                          .streams = streams,
                                          .campaign = name,
                                          .workers = kWorkers,
                                          .tasks_a_call = kTasksACall,
                                          .labels_each = kLabelsEach})};
  run.daemon_processor_seconds = ProcessorSeconds() - before;
  daemon.Stop(name);
  daemon.Delete(name);
  return run;
}

/// Measures the store, and then the daemon.
struct RateTurn {
  double store = 0;
  DaemonRun run = {};
};

template <typename Figure>
double MedianOf(const std::vector<RateTurn>& turns, Figure figure) {
  std::vector<double> values;
  for (const RateTurn& turn : turns) values.push_back(figure(turn));
  std::ranges::sort(values);
  return Percentile(values, 0.5);
}

/// Uses the median of alternating runs, because the speed of a shared machine changes within seconds.
void PrintRates(const std::vector<RateTurn>& turns) {
  const auto store = [](const RateTurn& turn) { return turn.store; };
  const auto rate = [](const RateTurn& turn) { return turn.run.rate(); };
  const auto ratio = [](const RateTurn& turn) { return turn.run.rate() / turn.store; };
  const auto of_workers = [](const RateTurn& turn) {
    return turn.run.crowd.processor_seconds / turn.run.crowd.seconds;
  };
  const auto of_daemon = [](const RateTurn& turn) {
    return turn.run.daemon_processor_seconds / turn.run.crowd.seconds;
  };
  PrintFigure("labels a second, the store alone", MedianOf(turns, store), "/s");
  PrintFigure("labels a second, over gRPC", MedianOf(turns, rate), "/s");
  PrintAtLeast("daemon over store", MedianOf(turns, ratio), 0.7);
  PrintFigure("processors that the workers themselves took", MedianOf(turns, of_workers), "");
  PrintFigure("processors that the daemon took", MedianOf(turns, of_daemon), "");
}

void PrintWaits(const std::vector<RateTurn>& turns, bool streams) {
  const auto first = [](const RateTurn& turn) { return Percentile(turn.run.crowd.first_waits_in_milliseconds, 0.99); };
  const auto usual = [](const RateTurn& turn) { return Percentile(turn.run.crowd.waits_in_milliseconds, 0.5); };
  const auto longest = [](const RateTurn& turn) { return Percentile(turn.run.crowd.waits_in_milliseconds, 0.99); };
  PrintFigure("first tasks, all workers at once, p99", MedianOf(turns, first), "ms");
  PrintFigure("tasks, median", MedianOf(turns, usual), "ms");
  PrintAtMost("tasks, p99", MedianOf(turns, longest), streams ? 50 : 30, "ms");
}

void CompareRates(const BenchmarkDaemon& daemon, bool streams) {
  PrintHeading(streams ? "500 workers on streams, 10 tasks at a time" : "500 workers who call, 10 tasks at a time");
  std::vector<RateTurn> turns;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    const double store = kLabels / StoreCrowd().Seconds();
    turns.push_back({store, RunDaemonCrowd(daemon, streams, repeat)});
  }
  PrintRates(turns);
  PrintWaits(turns, streams);
}

double ResidentMegabytes() {
  std::ifstream statm("/proc/self/statm");
  double pages = 0, resident = 0;
  statm >> pages >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE)) / 1048576;
}

double MeanOfThird(const std::vector<double>& values, std::size_t third) {
  const std::size_t first = values.size() * third / 3, last = values.size() * (third + 1) / 3;
  double sum = 0;
  for (std::size_t i = first; i < last; ++i) sum += values[i];
  return sum / static_cast<double>(last - first);
}

/// Runs campaigns one after the other, each labeled to its end by 500 workers that wait for tasks.
void Soak(const BenchmarkDaemon& daemon, std::chrono::seconds length) {
  PrintHeading("memory while campaigns come and go, 500 workers");
  std::vector<double> megabytes;
  std::int64_t labels = 0;
  const auto end = std::chrono::steady_clock::now() + length;
  for (int number = 0; std::chrono::steady_clock::now() < end; ++number) {
    const std::string name = absl::StrCat("soak-", number);
    v1::CampaignSpec spec = Spec(name, 500);
    spec.mutable_stop()->set_rounds(3);
    daemon.Create(spec);
    ImportFirstLabels(daemon, name);
    daemon.Start(name);
    labels += RunCrowdProcess({.port = daemon.port(),
                               .campaign = name,
                               .workers = kWorkers,
                               .tasks_a_call = 1,
                               .wait = std::chrono::seconds(20)})
                  .labels;
    daemon.Delete(name);
    megabytes.push_back(ResidentMegabytes());
  }
  PrintFigure("campaigns", static_cast<double>(megabytes.size()), "");
  PrintFigure("labels", static_cast<double>(labels), "");
  for (const std::size_t third : {0, 1, 2}) {
    PrintFigure(absl::StrCat("resident, mean of third ", third + 1).c_str(), MeanOfThird(megabytes, third), "MB");
  }
  PrintAtMost("last third over the one before", MeanOfThird(megabytes, 2) / MeanOfThird(megabytes, 1), 1.02, "x");
}

}  // namespace
}  // namespace fulcrum::benchmarks

int main(int count, char** arguments) {
  using namespace fulcrum::benchmarks;  // NOLINT(google-build-using-namespace)
  if (ServeAsCrowd(count, arguments)) return 0;
  const std::string mode = count > 1 ? arguments[1] : "";
  const BenchmarkDaemon daemon;
  if (mode == "--soak" && count == 3) {
    daemon.WritePool("pool-soak.csv", RandomPool(2000));
    Soak(daemon, std::chrono::seconds(std::atoi(arguments[2])));
    return ExitCode();
  }
  daemon.WritePool("pool-rate.csv", RandomPool(kPoolRows));
  if (mode != "--streams") CompareRates(daemon, /*streams=*/false);
  if (mode != "--calls") CompareRates(daemon, /*streams=*/true);
  return ExitCode();
}
