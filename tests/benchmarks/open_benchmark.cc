// The time to open a campaign, by the length of its log: after a clean stop, and after SIGKILL.
//
//   bench_open [EVENTS]        the longer log, 5,000,000 events unless told otherwise; the shorter one has 50,000
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "storage/campaign_reader.h"
#include "storage/campaign_store.h"
#include "storage/log/event_log.h"
#include "storage/rules/label_rules.h"
#include "storage/state/campaign_state.h"
#include "tests/benchmarks/ratio_report.h"
#include "tests/support/temporary_directory.h"

namespace fulcrum::benchmarks {
namespace {

using namespace storage;  // NOLINT(google-build-using-namespace): the benchmark is about nothing else

constexpr std::int64_t kFewEvents = 50'000;
constexpr std::int64_t kRepeats = 15;

void Require(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  std::exit(1);
}

/// Writes events to the log of a campaign without deriving a state, through the encoder and the log of the store.
class BulkLog {
 public:
  explicit BulkLog(const std::string& folder) {
    Require(CampaignStore::Create(folder, CampaignSettings{}).status());
    auto opened = SqliteDatabase::Open(CampaignFolder(folder).database());
    Require(opened.status());
    database_ = std::make_unique<SqliteDatabase>(*std::move(opened));
    database_->AllowOnlyAppendingTo(kEventTable);
    auto log = EventLog::Open(*database_);
    Require(log.status());
    log_ = std::make_unique<EventLog>(*std::move(log));
    last_ = *log_->LastSequence();
    at_ = log_->Find(last_)->at;
    auto transaction = SqliteTransaction::BeginWrite(*database_);
    Require(transaction.status());
    transaction_ = std::make_unique<SqliteTransaction>(*std::move(transaction));
  }
  ~BulkLog() { Require(transaction_->Commit()); }

  std::int64_t last() const { return last_; }
  Time at() const { return at_; }
  std::int64_t Append(Event event) {
    event.sequence = ++last_;
    event.at = at_;
    Require(log_->Append(EncodeEvent(std::move(event))));
    return last_;
  }

 private:
  std::unique_ptr<SqliteDatabase> database_;
  std::unique_ptr<EventLog> log_;
  std::unique_ptr<SqliteTransaction> transaction_;
  std::int64_t last_ = 0;
  Time at_ = {};
};

/// One round of 1,000 items whose tasks are leased and released again and again, each time by a new request.
void WriteLeases(const std::string& folder, std::int64_t events) {
  constexpr std::int64_t kItems = 1000;
  BulkLog log(folder);
  log.Append({.body = BatchCommitted{.round = 1}});
  for (std::int64_t i = 0; i < kItems; ++i) log.Append({.body = ItemBatched{absl::StrCat("item-", i), 1, i + 1, 0}});
  for (std::int64_t i = 0; log.last() + 2 <= events; ++i) {
    const std::int64_t epoch = i / kItems + 1;
    const std::int64_t lease = log.Append({.annotator = "ada",
                                           .request_id = absl::StrCat("request-", i),
                                           .fingerprint = 1,
                                           .body = LeaseGranted{.item = absl::StrCat("item-", i % kItems),
                                                                .epoch = epoch,
                                                                .round = 1,
                                                                .expires_at = log.at() + std::chrono::hours(1)}});
    log.Append({.annotator = "ada", .body = LeaseReleased{.lease = lease, .epoch = epoch}});
  }
}

/// Every event labels another item, 100 per request.
void WriteLabels(const std::string& folder, std::int64_t events) {
  BulkLog log(folder);
  for (std::int64_t i = 0; log.last() < events; ++i) {
    log.Append({.annotator = "gold",
                .request_id = absl::StrCat("import-", i / 100),
                .fingerprint = 1,
                .body = LabelImported{absl::StrCat("item-", i), i % 2 == 0 ? "cat" : "dog"}});
  }
}

/// Closes the store with a complete checkpoint.
void StopCleanly(const std::string& folder) {
  auto store = CampaignStore::Open(folder);
  Require(store.status());
  Require((*store)->WriteCheckpoint());
}

/// Without the time to close it.
double SecondsToOpen(const std::string& folder) {
  absl::StatusOr<std::unique_ptr<CampaignStore>> store;
  const double seconds = FastestSeconds(1, [&] { store = CampaignStore::Open(folder); });
  Require(store.status());
  return seconds;
}

/// A process that imports labels and is killed before a checkpoint includes them.
void WriteAndDie(const std::string& folder, std::int64_t events) {
  const pid_t child = fork();
  if (child == 0) {
    StoreOptions options;
    options.queue.idle_time = std::chrono::hours(1);
    auto store = CampaignStore::Open(folder, options);
    Require(store.status());
    ImportRequest request{.source = "late", .request_id = absl::StrCat("late-", getpid())};
    for (std::int64_t i = 0; i < events; ++i) request.labels.push_back({absl::StrCat("late-", i), "cat"});
    Require((*store)->Run(ImportLabels, request).status());
    kill(getpid(), SIGKILL);
  }
  waitpid(child, nullptr, 0);
}

struct Times {
  double opening = 1e300;  ///< of the store, after a clean stop
  double settings = 1e300;
};

/// Both campaigns by turns, so that other load on the machine affects them alike.
void Compare(const char* what, void (*write)(const std::string&, std::int64_t), std::int64_t many_events) {
  const testing::TemporaryDirectory directory;
  const std::string few = directory.File("few");
  const std::string many = directory.File("many");
  PrintHeading(what);
  write(few, kFewEvents);
  write(many, many_events);
  PrintFigure("replay of the whole log, once, and the first checkpoint", FastestSeconds(1, [&] { StopCleanly(many); }),
              "s");
  StopCleanly(few);
  Times of_few;
  Times of_many;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    for (const auto& [folder, times] : {std::pair(few, &of_few), std::pair(many, &of_many)}) {
      times->opening = std::min(times->opening, SecondsToOpen(folder));
      times->settings = std::min(times->settings, FastestSeconds(1, [&] {
                                   auto reader = CampaignReader::Open(folder);
                                   Require(reader.status());
                                   Require((*reader)->Settings().status());
                                 }));
    }
  }
  PrintFigure("open after a clean stop, short log", 1000 * of_few.opening, "ms");
  PrintFigure("open after a clean stop, long log", 1000 * of_many.opening, "ms");
  PrintAtMost("long log over short log", of_many.opening / of_few.opening, 1.2, "x");
  PrintAtMost("the same for a reader of the settings", of_many.settings / of_few.settings, 1.2, "x");
  PrintFigure("reader with the complete state, long log",
              FastestSeconds(1,
                             [&] {
                               auto reader = CampaignReader::Open(many);
                               Require(reader.status());
                               Require((*reader)->CatchUp());
                             }),
              "s");
  for (const std::int64_t tail : {20'000, 100'000}) {
    for (const auto& [name, folder] : {std::pair("short", few), std::pair("long", many)}) {
      StopCleanly(folder);
      WriteAndDie(folder, tail);
      const std::string line =
          absl::StrCat("open after SIGKILL, ", tail, " events after the checkpoint, ", name, " log");
      PrintFigure(line.c_str(), 1000 * SecondsToOpen(folder), "ms");
    }
  }
}

}  // namespace
}  // namespace fulcrum::benchmarks

int main(int argc, char** argv) {
  using namespace fulcrum::benchmarks;  // NOLINT(google-build-using-namespace)
  const std::int64_t events = argc > 1 ? std::atoll(argv[1]) : 5'000'000;
  Compare("leases of 1,000 items", WriteLeases, events);
  Compare("as many labeled items as events", WriteLabels, events);
}
