#include "pipeline/operation/metrics.h"

#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <memory>
#include <string>

#include "fulcrum/v1/campaign_service.pb.h"
#include "pipeline/server/transport/frame_guard.h"

namespace fulcrum::pipeline {
namespace {

using prometheus::MetricFamily;
using prometheus::MetricType;

struct StateName {
  v1::CampaignState state;
  const char* name;
};

constexpr std::array kStates = {
    StateName{v1::CAMPAIGN_STATE_CREATED, "created"},
    StateName{v1::CAMPAIGN_STATE_RUNNING, "running"},
    StateName{v1::CAMPAIGN_STATE_WAITING, "waiting"},
    StateName{v1::CAMPAIGN_STATE_PAUSED, "paused"},
    StateName{v1::CAMPAIGN_STATE_DONE, "done"},
    StateName{v1::CAMPAIGN_STATE_FAILED, "failed"},
    StateName{v1::CAMPAIGN_STATE_QUARANTINED, "quarantined"},
    StateName{v1::CAMPAIGN_STATE_CLOSING, "closing"},
};

/// A figure of every campaign.
struct Figure {
  MetricType type;
  const char* name;
  const char* help;
  double (*of)(const v1::Campaign& campaign);
};

constexpr std::array kFigures = {
    Figure{MetricType::Gauge, "fulcrum_live_leases", "Tasks that workers hold.",
           [](const v1::Campaign& campaign) { return static_cast<double>(campaign.live_leases()); }},
    Figure{MetricType::Gauge, "fulcrum_open_tasks", "Tasks of the current batch that are not leased.",
           [](const v1::Campaign& campaign) { return static_cast<double>(campaign.open_tasks()); }},
    Figure{MetricType::Counter, "fulcrum_labels_total", "Labels taken from workers since the campaign began.",
           [](const v1::Campaign& campaign) { return static_cast<double>(campaign.labels()); }},
    Figure{MetricType::Counter, "fulcrum_imported_labels_total", "Labels imported since the campaign began.",
           [](const v1::Campaign& campaign) { return static_cast<double>(campaign.imported_labels()); }},
    Figure{MetricType::Counter, "fulcrum_rounds_total", "Batches committed since the campaign began.",
           [](const v1::Campaign& campaign) { return static_cast<double>(campaign.round()); }},
    Figure{MetricType::Gauge, "fulcrum_campaign_quarantined",
           "1 if the campaign's rounds killed the process and it waits for an administrator to start it.",
           [](const v1::Campaign& campaign) { return campaign.state() == v1::CAMPAIGN_STATE_QUARANTINED ? 1.0 : 0.0; }},
    Figure{MetricType::Gauge, "fulcrum_pool_rows", "Examples in the pool.",
           [](const v1::Campaign& campaign) { return static_cast<double>(campaign.pool_rows()); }},
    Figure{MetricType::Counter, "fulcrum_stream_rows_total", "Rows of a stream that were decided.",
           [](const v1::Campaign& campaign) { return static_cast<double>(campaign.stream().rows()); }},
    Figure{MetricType::Counter, "fulcrum_stream_taken_total", "Rows of a stream that were taken to be labeled.",
           [](const v1::Campaign& campaign) { return static_cast<double>(campaign.stream().taken()); }},
    Figure{MetricType::Counter, "fulcrum_stream_drift_alarms_total",
           "Windows of rows of a stream that were not distributed as those of the pool.",
           [](const v1::Campaign& campaign) { return static_cast<double>(campaign.stream().drift_alarms()); }},
};

MetricFamily CampaignsByState(const std::vector<v1::Campaign>& campaigns, std::size_t broken) {
  std::map<v1::CampaignState, double> counts;
  for (const v1::Campaign& campaign : campaigns) ++counts[campaign.state()];
  MetricFamily family = MakeFamily(MetricType::Gauge, "fulcrum_campaigns",
                                   "Campaigns by state; 'broken' are those that could not be opened.");
  for (const StateName& state : kStates) AddValue(family, counts[state.state], "state", state.name);
  AddValue(family, static_cast<double>(broken), "state", "broken");
  return family;
}

/// With its write-ahead log.
double DatabaseBytes(const storage::CampaignFolder& folder) {
  double bytes = 0;
  for (const char* const suffix : {"", "-wal"}) {
    std::error_code error;
    const std::uintmax_t size = std::filesystem::file_size(folder.database() + suffix, error);
    if (!error) bytes += static_cast<double>(size);
  }
  return bytes;
}

}  // namespace

std::vector<MetricFamily> DaemonFigures::Collect() const {
  std::vector<v1::Campaign> described;
  MetricFamily queued = MakeFamily(MetricType::Gauge, "fulcrum_commit_queue_depth",
                                   "Operations that wait for the store's writing thread.");
  MetricFamily retries = MakeFamily(MetricType::Counter, "fulcrum_retries_total",
                                    "Steps of a campaign that failed for now and were retried, since the start.");
  MetricFamily store_bytes =
      MakeFamily(MetricType::Gauge, "fulcrum_store_bytes", "Size of the campaign's database, with its log.");
  MetricFamily checkpoint_age =
      MakeFamily(MetricType::Gauge, "fulcrum_checkpoint_age_events",
                 "Events after the last checkpoint, which are read when the campaign is opened.");
  MetricFamily lost = MakeFamily(MetricType::Gauge, "fulcrum_campaign_lost_events",
                                 "1 if the campaign's log has lost committed events, until its note is deleted.");
  for (const std::shared_ptr<Campaign>& campaign : campaigns_.List("", std::numeric_limits<std::size_t>::max())) {
    described.push_back(campaign->Describe());
    AddValue(queued, static_cast<double>(campaign->store().queued()), "campaign", campaign->name());
    AddValue(retries, static_cast<double>(campaign->retries()), "campaign", campaign->name());
    AddValue(checkpoint_age, static_cast<double>(campaign->store().events_since_checkpoint()), "campaign",
             campaign->name());
    AddValue(store_bytes, DatabaseBytes(campaign->store().folder()), "campaign", campaign->name());
    AddValue(lost, campaign->lost_events().empty() ? 0 : 1, "campaign", campaign->name());
  }
  std::vector<MetricFamily> families = {CampaignsByState(described, campaigns_.broken().size()),
                                        std::move(queued),
                                        std::move(retries),
                                        std::move(store_bytes),
                                        std::move(checkpoint_age),
                                        std::move(lost)};
  for (const Figure& figure : kFigures) {
    MetricFamily family = MakeFamily(figure.type, figure.name, figure.help);
    for (const v1::Campaign& campaign : described) AddValue(family, figure.of(campaign), "campaign", campaign.name());
    families.push_back(std::move(family));
  }
  AddValue(
      families.emplace_back(MakeFamily(MetricType::Gauge, "fulcrum_call_queue_depth", "Calls that wait for a thread.")),
      static_cast<double>(queues_.calls()));
  AddValue(families.emplace_back(MakeFamily(MetricType::Gauge, "fulcrum_waiting_workers",
                                            "Workers that asked for tasks when there were none, and wait.")),
           static_cast<double>(queues_.workers()));
  AddValue(families.emplace_back(MakeFamily(MetricType::Counter, "fulcrum_flooding_connections_closed_total",
                                            "Connections that were closed because they sent too many frames.")),
           static_cast<double>(ConnectionsClosedForFloods()));
  return families;
}

namespace {

using prometheus::BuildCounter;
using prometheus::BuildHistogram;
using prometheus::Histogram;

// From pools of a few hundred rows to pools of millions.
const Histogram::BucketBoundaries& RoundBuckets() {
  static const auto* const buckets =
      new Histogram::BucketBoundaries{0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000};
  return *buckets;
}

// From a disk with a battery-backed cache to a failing disk.
const Histogram::BucketBoundaries& CommitBuckets() {
  static const auto* const buckets =
      new Histogram::BucketBoundaries{0.0003, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.3, 1, 3};
  return *buckets;
}

// From an answer out of memory to a worker that waits for a task.
const Histogram::BucketBoundaries& CallBuckets() {
  static const auto* const buckets =
      new Histogram::BucketBoundaries{0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100};
  return *buckets;
}

/// The names that the documentation of gRPC uses.
const char* CodeName(int code) {
  constexpr std::array kNames = {
      "OK",        "CANCELLED",      "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
      "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
      "ABORTED",   "OUT_OF_RANGE",   "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
      "DATA_LOSS", "UNAUTHENTICATED"};
  return code >= 0 && static_cast<std::size_t>(code) < kNames.size() ? kNames[static_cast<std::size_t>(code)]
                                                                     : "UNKNOWN";
}

}  // namespace

DaemonMetrics::DaemonMetrics()
    : registry_(std::make_shared<prometheus::Registry>()),
      rounds_(BuildHistogram()
                  .Name("fulcrum_round_seconds")
                  .Help("Time of a round, from reading the log to the committed batch.")
                  .Register(*registry_)),
      stages_(BuildHistogram()
                  .Name("fulcrum_stage_seconds")
                  .Help("Time in a stage of a round; classes run side by side, so stages need not sum to rounds.")
                  .Register(*registry_)),
      commits_(BuildHistogram()
                   .Name("fulcrum_commit_seconds")
                   .Help("Time of one durable commit of a campaign's store, however many labels it held.")
                   .Register(*registry_)),
      calls_(BuildCounter()
                 .Name("fulcrum_calls_total")
                 .Help("Calls that ended, by method and status code; streams count when they end.")
                 .Register(*registry_)),
      call_seconds_(BuildHistogram()
                        .Name("fulcrum_call_seconds")
                        .Help("Time of a call without streams. AcquireTasks may wait for tasks as long as it asks for.")
                        .Register(*registry_)) {}

prometheus::Histogram& DaemonMetrics::Find(Histograms& family, const std::string& campaign, prometheus::Labels labels,
                                           const Histogram::BucketBoundaries& buckets) {
  labels.emplace("campaign", campaign);
  Histogram& found = family.Add(labels, buckets);
  const std::scoped_lock lock(mutex_);
  of_campaigns_[campaign].emplace(&family, &found);
  return found;
}

void DaemonMetrics::ObserveRound(const std::string& campaign, bool warm, double seconds,
                                 std::span<const StageSeconds> stages) {
  Find(rounds_, campaign, {{"start", warm ? "warm" : "cold"}}, RoundBuckets()).Observe(seconds);
  for (const StageSeconds& entry : stages) {
    Find(stages_, campaign, {{"stage", entry.stage}}, RoundBuckets()).Observe(entry.seconds);
  }
}

void DaemonMetrics::ObserveCommit(const std::string& campaign, std::chrono::nanoseconds taken) {
  Find(commits_, campaign, {}, CommitBuckets()).Observe(std::chrono::duration<double>(taken).count());
}

void DaemonMetrics::ObserveCall(const CallReport& call) {
  const std::scoped_lock lock(mutex_);
  prometheus::Counter*& counter = call_counters_[{call.method, call.code}];
  if (counter == nullptr) counter = &calls_.Add({{"method", call.method}, {"code", CodeName(call.code)}});
  counter->Increment();
  if (call.streaming) return;
  Histogram*& histogram = call_histograms_[call.method];
  if (histogram == nullptr) histogram = &call_seconds_.Add({{"method", call.method}}, CallBuckets());
  histogram->Observe(std::chrono::duration<double>(call.taken).count());
}

void DaemonMetrics::Forget(const std::string& campaign) {
  const std::scoped_lock lock(mutex_);
  const auto found = of_campaigns_.find(campaign);
  if (found == of_campaigns_.end()) return;
  for (const auto& [family, histogram] : found->second) family->Remove(histogram);
  of_campaigns_.erase(found);
}

namespace {

using prometheus::MetricType;

double ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  double pages = 0, resident = 0;
  statm >> pages >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE));
}

double OpenDescriptors() {
  std::error_code error;
  double count = 0;
  for (std::filesystem::directory_iterator entry("/proc/self/fd", error), end; !error && entry != end;
       entry.increment(error)) {
    ++count;
  }
  return count;
}

double DescriptorLimit() {
  rlimit limit{};
  return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? static_cast<double>(limit.rlim_cur) : 0;
}

double ProcessorSeconds() {
  rusage usage{};
  if (getrusage(RUSAGE_SELF, &usage) != 0) return 0;
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

}  // namespace

std::vector<prometheus::MetricFamily> ProcessFigures::Collect() const {
  std::vector<prometheus::MetricFamily> families;
  const auto add = [&](MetricType type, const char* name, const char* help, double value) {
    AddValue(families.emplace_back(MakeFamily(type, name, help)), value);
  };
  add(MetricType::Gauge, "process_resident_memory_bytes", "Memory that the process has in use.", ResidentBytes());
  add(MetricType::Gauge, "process_open_fds", "Open file descriptors.", OpenDescriptors());
  add(MetricType::Gauge, "process_max_fds", "Limit of open file descriptors.", DescriptorLimit());
  add(MetricType::Counter, "process_cpu_seconds_total", "Processor time, of all threads.", ProcessorSeconds());
  return families;
}

}  // namespace fulcrum::pipeline
