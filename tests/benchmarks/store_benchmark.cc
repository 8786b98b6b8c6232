// Durable labels per second with 100 concurrent submitters, compared with a plain SQLite loop with the same group size,
// and the latency of a single submitter.
#include <algorithm>
#include <atomic>
#include <latch>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "storage/campaign_store.h"
#include "storage/rules/label_rules.h"
#include "storage/rules/lease_rules.h"
#include "storage/rules/round_rules.h"
#include "storage/sqlite/sqlite.h"
#include "tests/benchmarks/ratio_report.h"
#include "tests/support/temporary_directory.h"

namespace fulcrum::benchmarks {
namespace {

using namespace storage;  // NOLINT(google-build-using-namespace): the benchmark is about nothing else

constexpr int kSubmitters = 100;
constexpr int kLabelsEach = 400;
constexpr int kLabels = kSubmitters * kLabelsEach;
constexpr int kLoneLabels = 2000;
constexpr int kRepeats = 3;

double SecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void Require(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  std::exit(1);
}

/// Inserts the same data as rows, `group` per commit, from a single thread: the maximum rate of SQLite.
double BareLoopSeconds(int labels, int group) {
  const testing::TemporaryDirectory directory;
  auto database = SqliteDatabase::Open(directory.File("bare.db"));
  Require(database.status());
  Require(
      database->Execute("CREATE TABLE label(sequence INTEGER PRIMARY KEY, at_us INTEGER, annotator TEXT, "
                        "request_id TEXT, item TEXT, lease INTEGER, epoch INTEGER, round INTEGER, value TEXT)"));
  auto insert = database->Prepare("INSERT INTO label VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)");
  Require(insert.status());
  const auto start = std::chrono::steady_clock::now();
  for (int done = 0; done < labels;) {
    auto transaction = SqliteTransaction::BeginWrite(*database);
    Require(transaction.status());
    for (const int end = std::min(labels, done + group); done < end; ++done) {
      Require(insert->Bind(1, std::int64_t{done} + 1));
      Require(insert->Bind(2, std::int64_t{1'700'000'000'000'000} + done));
      Require(insert->Bind(3, absl::StrCat("annotator-", done % kSubmitters)));
      Require(insert->Bind(4, absl::StrCat("request-", done)));
      Require(insert->Bind(5, absl::StrCat("item-", done)));
      Require(insert->Bind(6, std::int64_t{done}));
      Require(insert->Bind(7, std::int64_t{1}));
      Require(insert->Bind(8, std::int64_t{1}));
      Require(insert->Bind(9, std::string_view("positive")));
      Require(insert->Run());
    }
    Require(transaction->Commit());
  }
  return SecondsSince(start);
}

/// A campaign in which every submitter has already leased its items.
struct LeasedCampaign {
  explicit LeasedCampaign(int submitters, int each) {
    StoreOptions options;
    options.on_commit = [this](const CampaignStatus&) { ++commits; };
    auto created = CampaignStore::Create(directory.File("campaign"), CampaignSettings{}, options);
    Require(created.status());
    store = *std::move(created);
    CommitBatchRequest batch{.round = 1};
    for (int i = 0; i < submitters * each; ++i) batch.items.push_back({absl::StrCat("item-", i), 0});
    Require(store->Run(CommitBatch, batch).status());
    leases.resize(static_cast<std::size_t>(submitters));
    for (int submitter = 0; submitter < submitters; ++submitter) {
      for (int left = each; left > 0; left -= 1000) {
        const auto answer = store->Run(
            AcquireTasks,
            {.annotator = Name(submitter), .request_id = absl::StrCat("acquire-", left), .most = std::min(left, 1000)});
        Require(answer.status());
        auto& mine = leases[static_cast<std::size_t>(submitter)];
        mine.insert(mine.end(), answer->leases.begin(), answer->leases.end());
      }
    }
    Require(store->WriteCheckpoint());
    commits = 0;
  }

  static std::string Name(int submitter) { return absl::StrCat("annotator-", submitter); }

  static SubmitRequest RequestFor(int submitter, const GrantedLease& lease) {
    return {.annotator = Name(submitter),
            .request_id = absl::StrCat("request-", lease.lease),
            .lease = lease.lease,
            .epoch = lease.epoch,
            .item = lease.item,
            .value = "positive"};
  }

  /// Waits for the result.
  void Submit(int submitter, const GrantedLease& lease) {
    Require(store->Run(SubmitLabel, RequestFor(submitter, lease)).status());
  }

  /// Submits the labels of a submitter one after the other, each after the previous one completed, without a thread.
  void SubmitAll(int submitter, std::size_t next, std::latch& finished) {
    const auto& mine = leases[static_cast<std::size_t>(submitter)];
    if (next == mine.size()) return finished.count_down();
    store->Start(SubmitLabel, RequestFor(submitter, mine[next]),
                 [this, submitter, next, &finished](const absl::StatusOr<LabelAnswer>& answer) {
                   Require(answer.status());
                   SubmitAll(submitter, next + 1, finished);
                 });
  }

  testing::TemporaryDirectory directory;
  std::atomic<int> commits = 0;
  std::vector<std::vector<GrantedLease>> leases;
  std::unique_ptr<CampaignStore> store;
};

struct StoreTime {
  double seconds = 0;      ///< until the last result
  double with_tables = 0;  ///< until the derived tables are up to date
  double group = 0;        ///< operations per commit
};

void SubmitFromThreads(LeasedCampaign& campaign) {
  std::vector<std::thread> threads;
  for (int submitter = 0; submitter < kSubmitters; ++submitter) {
    threads.emplace_back([&campaign, submitter] {
      for (const GrantedLease& lease : campaign.leases[static_cast<std::size_t>(submitter)]) {
        campaign.Submit(submitter, lease);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

void SubmitFromCallbacks(LeasedCampaign& campaign) {
  std::latch finished(kSubmitters);
  for (int submitter = 0; submitter < kSubmitters; ++submitter) campaign.SubmitAll(submitter, 0, finished);
  finished.wait();
}

StoreTime TimeSubmitters(void (*submit)(LeasedCampaign&)) {
  LeasedCampaign campaign(kSubmitters, kLabelsEach);
  const auto start = std::chrono::steady_clock::now();
  submit(campaign);
  StoreTime time{.seconds = SecondsSince(start)};
  time.group = static_cast<double>(kLabels) / campaign.commits;
  Require(campaign.store->WriteCheckpoint());
  time.with_tables = SecondsSince(start);
  return time;
}

void CompareThroughput(const char* how, void (*submit)(LeasedCampaign&)) {
  PrintHeading(how);
  StoreTime best{.seconds = 1e300, .with_tables = 1e300};
  double bare = 1e300;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    const StoreTime time = TimeSubmitters(submit);
    if (time.seconds < best.seconds) best = time;
    bare = std::min(bare, BareLoopSeconds(kLabels, std::max(1, static_cast<int>(time.group + 0.5))));
  }
  PrintFigure("labels a commit", best.group, "");
  PrintFigure("bare SQLite loop with that group size", kLabels / bare, "/s");
  PrintFigure("store", kLabels / best.seconds, "/s");
  PrintFigure("store, the derived tables included", kLabels / best.with_tables, "/s");
  PrintAtLeast("store over bare loop", bare / best.seconds, 0.6);
}

void MeasureLoneSubmitter() {
  PrintHeading("one submitter, one label at a time");
  LeasedCampaign campaign(1, kLoneLabels);
  std::vector<double> milliseconds;
  for (const GrantedLease& lease : campaign.leases[0]) {
    const auto start = std::chrono::steady_clock::now();
    campaign.Submit(0, lease);
    milliseconds.push_back(1000 * SecondsSince(start));
  }
  std::sort(milliseconds.begin(), milliseconds.end());
  PrintFigure("median", milliseconds[milliseconds.size() / 2], "ms");
  PrintAtMost("p99", milliseconds[milliseconds.size() * 99 / 100], 20, "ms");
}

}  // namespace
}  // namespace fulcrum::benchmarks

int main() {
  using namespace fulcrum::benchmarks;  // NOLINT(google-build-using-namespace)
  CompareThroughput("durable labels, 100 concurrent submitters that are called back, as the daemon's are",
                    SubmitFromCallbacks);
  CompareThroughput("durable labels, 100 concurrent submitters that are threads and wait", SubmitFromThreads);
  MeasureLoneSubmitter();
}
