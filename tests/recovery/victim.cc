#include "tests/recovery/victim.h"

#include <unistd.h>

#include <atomic>
#include <memory>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "stages/core/random.h"
#include "storage/campaign_reader.h"
#include "storage/campaign_store.h"
#include "storage/rules/label_rules.h"
#include "storage/rules/lease_rules.h"
#include "storage/rules/offer_rules.h"
#include "storage/rules/round_rules.h"
#include "tests/support/manual_clock.h"

namespace fulcrum::testing {
namespace {

using storage::CampaignStore;

constexpr int kAnnotators = 3;
constexpr int kItemsPerRound = 12;

/// One annotator: a thread that sends requests, and records every request and every response.
class Annotator {
 public:
  Annotator(CampaignStore& store, const VictimOptions& options, const OutsideLedger& ledger, int number)
      : store_(store),
        options_(options),
        name_(absl::StrCat("w", number)),
        random_(Random::Fork(options.seed, static_cast<std::uint64_t>(number))) {
    for (const auto& [key, entry] : ledger.unanswered()) {
      if (entry.annotator == name_) retries_.push_back(entry);
    }
    for (const Entry& entry : ledger.answers()) {
      if (entry.annotator != name_) continue;
      answered_.push_back(entry);
      if (entry.request == Request::kAcquire) held_.push_back(entry);
    }
  }

  void Work() {
    for (const Entry& entry : retries_) Ask(entry);
    while (store_.health().ok()) {
      if (!answered_.empty() && random_.Below(8) == 0) {
        AskAgain(answered_[random_.Below(answered_.size())]);
      } else {
        Ask(NewRequest());
      }
    }
  }

 private:
  Entry NewRequest() {
    Entry entry;
    Put(entry.annotator, name_);
    Put(entry.id, absl::StrCat(options_.run, "-", ++requests_));
    const std::uint64_t dice = held_.empty() ? 0 : random_.Below(10);
    if (dice < 3) return entry;
    // Usually a recent lease; sometimes one that ended long ago, whose label is late.
    const std::size_t back = random_.Below(4) == 0 ? random_.Below(held_.size()) : 0;
    const Entry& lease = held_[held_.size() - 1 - back];
    entry.request = dice < 7    ? Request::kSubmit
                    : dice == 7 ? Request::kSkip
                    : dice == 8 ? Request::kRenew
                                : Request::kRelease;
    entry.lease = lease.sequence;
    entry.epoch = lease.epoch;
    Put(entry.item, lease.item);
    Put(entry.value, random_.Below(2) == 0 ? "cat" : "dog");
    return entry;
  }

  /// Returns the sequence of the event that the request caused; an error if it was rejected or had no effect.
  absl::StatusOr<std::int64_t> Call(Entry& entry) {
    const storage::LeaseRequest lease{
        .annotator = name_, .request_id = entry.id, .lease = entry.lease, .epoch = entry.epoch};
    switch (entry.request) {
      case Request::kAcquire: {
        const auto answer = store_.Run(storage::AcquireTasks, {.annotator = name_, .request_id = entry.id, .most = 1});
        if (!answer.ok()) return answer.status();
        if (answer->leases.empty()) return absl::NotFoundError("nothing to do");
        Put(entry.item, answer->leases[0].item);
        entry.epoch = answer->leases[0].epoch;
        return answer->leases[0].lease;
      }
      case Request::kSubmit: {
        const auto answer = store_.Run(storage::SubmitLabel, {.annotator = name_,
                                                              .request_id = entry.id,
                                                              .lease = entry.lease,
                                                              .epoch = entry.epoch,
                                                              .item = entry.item,
                                                              .value = entry.value});
        if (!answer.ok()) return answer.status();
        return answer->sequence;
      }
      case Request::kSkip: {
        const auto answer = store_.Run(storage::SkipTask, {.annotator = name_,
                                                           .request_id = entry.id,
                                                           .lease = entry.lease,
                                                           .epoch = entry.epoch,
                                                           .reason = storage::SkipReason::kNotNow});
        if (!answer.ok()) return answer.status();
        return answer->sequence;
      }
      case Request::kRenew: {
        // Returns a time, not a sequence; that it took effect once is checked in the log.
        const auto answer = store_.Run(storage::RenewLease, lease);
        return answer.ok() ? absl::NotFoundError("no sequence") : answer.status();
      }
      case Request::kRelease: {
        const auto answer = store_.Run(storage::ReleaseLease, lease);
        if (!answer.ok()) return answer.status();
        return answer->sequence;
      }
    }
    return absl::InternalError("no such request");
  }

  void Ask(Entry entry) {
    entry.kind = Entry::Kind::kAsked;
    Send(entry);
    const auto sequence = Call(entry);
    entry.kind = sequence.ok() ? Entry::Kind::kAnswered : Entry::Kind::kRefused;
    if (sequence.ok()) entry.sequence = *sequence;
    Send(entry);
    if (!sequence.ok()) return;
    answered_.push_back(entry);
    if (entry.request == Request::kAcquire) held_.push_back(entry);
  }

  void AskAgain(Entry entry) {
    const std::int64_t told = entry.sequence;
    const auto sequence = Call(entry);
    if (!store_.health().ok() || (sequence.ok() && *sequence == told)) return;
    entry.kind = Entry::Kind::kBroken;
    Put(entry.value, sequence.ok() ? "another answer" : sequence.status().ToString());
    Send(entry);
  }

  void Send(const Entry& entry) const {
    static_assert(sizeof(Entry) <= 4096);  // PIPE_BUF: atomic
    if (write(options_.pipe, &entry, sizeof(entry)) != sizeof(entry)) _exit(3);
  }

  CampaignStore& store_;
  const VictimOptions& options_;
  const std::string name_;
  Random random_;
  std::vector<Entry> retries_, answered_, held_;
  std::int64_t requests_ = 0;
};

absl::StatusOr<std::vector<storage::BatchedItem>> FindDoubtful(storage::Ledger& ledger, const storage::Voices& voices) {
  return storage::DoubtfulItems(ledger.state(), voices, {}, 2);
}

void AdvanceCampaign(CampaignStore& store, Random& random) {
  const auto status = store.status();
  if (status->round_open) {
    const std::string forced = random.Below(20) == 0 ? "enough" : "";
    store.Run(storage::AdvanceRound, {.round = status->round, .forced = forced}).IgnoreError();
    if (store.status()->round_open) return;
  }
  storage::CommitBatchRequest batch{.round = status->round + 1};
  for (int i = 0; i < kItemsPerRound; ++i) batch.items.push_back({absl::StrCat("r", batch.round, "-", i), 0.5});
  // A classifier has something to say about these items and those of the round before; some labels are in doubt then.
  for (std::int64_t round = batch.round - 1; round <= batch.round; ++round) {
    for (int i = 0; i < kItemsPerRound; ++i) {
      const double p = random.Uniform();
      batch.voices.probabilities[absl::StrCat("r", round, "-", i)] = {p, 1 - p};
    }
  }
  if (auto again = store.Run(FindDoubtful, batch.voices); again.ok()) batch.again = *std::move(again);
  batch.places = kItemsPerRound;
  store.Run(storage::CommitBatch, batch).IgnoreError();
}

/// Rows of a stream, some of which are taken.
void OfferRows(CampaignStore& store, Random& random) {
  const storage::OfferedFigures figures = store.status()->offered;
  storage::OfferedGroup group{.by = "stream", .request_id = absl::StrCat("rows after ", figures.rows), .rows = 5};
  const std::uint64_t taken = random.Below(3);
  for (std::uint64_t i = 0; i < taken; ++i) {
    group.taken.push_back({.item = absl::StrCat("s", figures.rows, "-", i), .cost = 0.5});
  }
  group.kept = static_cast<std::int64_t>(taken + random.Below(2));
  group.complete = random.Below(4) == 0;
  group.record = "what was decided";
  store.Run(storage::OfferRows, {.after = figures.rows, .groups = {group}}).IgnoreError();
}

/// Advances rounds and time, and makes the clock jump.
void BeDaemon(CampaignStore& store, ManualClock& clock, Random& random) {
  while (store.health().ok()) {
    AdvanceCampaign(store, random);
    if (random.Below(4) == 0) OfferRows(store, random);
    const std::uint64_t dice = random.Below(20);
    clock.Advance(dice == 0   ? std::chrono::microseconds(std::chrono::hours(2))
                  : dice == 1 ? std::chrono::microseconds(-std::chrono::hours(1))
                              : std::chrono::microseconds(std::chrono::seconds(random.Below(90))));
    store.ExpireLeases().IgnoreError();
  }
}

}  // namespace

std::string RunVictim(const VictimOptions& options, const OutsideLedger& ledger) {
  Random random(options.seed);
  ManualClock clock;
  {
    auto reader = storage::CampaignReader::Open(options.folder);
    if (!reader.ok() || !(*reader)->CatchUp().ok()) return "the campaign cannot be read";
    // After a restart the clock may be before or after the end of the log.
    const auto off = std::chrono::seconds(static_cast<std::int64_t>(random.Below(600)) - 120);
    clock.Set((*reader)->state().last_time() + off);
  }
  storage::StoreOptions store_options{.clock = &clock};
  // Tables are written often, so that kills hit these writes too.
  store_options.queue.idle_time = std::chrono::milliseconds(1);
  auto opened = CampaignStore::Open(options.folder, store_options);
  if (!opened.ok()) return opened.status().ToString();
  CampaignStore& store = **opened;
  store.Run(storage::ChangeLife, {.life = storage::Life::kRunning}).IgnoreError();
  std::vector<std::unique_ptr<Annotator>> annotators;
  std::vector<std::thread> threads;
  for (int i = 0; i < kAnnotators; ++i) {
    annotators.push_back(std::make_unique<Annotator>(store, options, ledger, i));
    threads.emplace_back([&annotator = *annotators.back()] { annotator.Work(); });
  }
  BeDaemon(store, clock, random);
  for (std::thread& thread : threads) thread.join();
  return store.health().ToString();
}

}  // namespace fulcrum::testing
