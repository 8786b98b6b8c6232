#include "pipeline/campaign/stream/campaign_stream.h"

#include <algorithm>
#include <chrono>
#include <set>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "fulcrum/v1/campaign_spec.pb.h"
#include "pipeline/campaign/campaign_plan.h"
#include "pipeline/text/status.h"
#include "pipeline/text/structured_log.h"
#include "pipeline/text/text_sink.h"
#include "stages/core/random.h"
#include "stages/core/status_macros.h"
#include "storage/rules/label_rules.h"

namespace fulcrum::pipeline {
namespace {

constexpr std::size_t kMostQueuedRows = 100'000;
// Rows are put into files when they take so much memory, and refused if that fails and they take several times as much.
constexpr std::size_t kStoredBytes = std::size_t{64} << 20, kMostWaitingBytes = std::size_t{256} << 20;
// The whole state is 16 to 64 KB: it is written so rarely that a row costs some 20 bytes of it, and so often that a
// campaign is opened quickly.
constexpr std::int64_t kRowsPerState = 4000, kRecordsPerState = 256;
constexpr int kMostAttempts = 3;

v1::OfferDecision DecisionOf(RowDecision decision) {
  switch (decision) {
    case RowDecision::kLabel:
      return v1::OFFER_DECISION_LABEL;
    case RowDecision::kSkip:
      return v1::OFFER_DECISION_SKIP;
    case RowDecision::kExisting:
      return v1::OFFER_DECISION_EXISTING;
  }
  return v1::OFFER_DECISION_UNSPECIFIED;
}

}  // namespace

absl::StatusOr<std::unique_ptr<CampaignStream>> CampaignStream::Open(
    std::function<std::shared_ptr<const CampaignPlan>()> plan, GrowingPool& pool, storage::CampaignStore& store,
    PoolAppender& appender) {
  std::unique_ptr<CampaignStream> opened(new CampaignStream(std::move(plan), pool, store, appender));
  FULCRUM_ASSIGN_OR_RETURN(storage::OfferRecordsAnswer answer, store.Run(storage::ReadOffers, {}));
  for (const storage::StoredOffer& stored : answer.records) {
    if (stored.sequence <= answer.figures.stored) continue;
    FULCRUM_ASSIGN_OR_RETURN(const OfferRecord record, DecodeRecord(stored.offered.record));
    for (const OfferRecord::Kept& kept : record.kept) opened->waiting_.Add(kept.row, stored.sequence);
  }
  if (answer.figures.last == 0) return opened;
  opened->waiting_.Commit(answer.figures.last);
  if (const absl::Status followed = opened->FollowRound(); !followed.ok()) {
    // The first rows that are offered are told.
    Log(LogLevel::kWarning, "rows of the stream cannot be decided",
        {{"campaign", opened->plan_()->name}, {"reason", std::string(followed.message())}});
  }
  return opened;
}

absl::StatusOr<std::vector<v1::OfferAnswer>> CampaignStream::Offer(const OfferRequest& request) {
  Offered own{.group = {.by = request.by, .request_id = request.request_id}};
  FULCRUM_ASSIGN_OR_RETURN(own.read, ReadOfferRequest(*plan_(), *pool_.now(), request));
  own.group.content = own.read.content;
  Offered* const offered = &own;
  {
    std::unique_lock lock(mutex_);
    if (queued_rows_ + offered->read.rows.size() > kMostQueuedRows) {
      return absl::ResourceExhaustedError("too many rows wait for their decision; try again later");
    }
    queue_.push_back(offered);
    queued_rows_ += offered->read.rows.size();
    // An exception, such as lack of memory, must not leave a pointer to what is on this stack.
    const absl::Cleanup leave = [&] {
      if (std::erase(queue_, offered) > 0) queued_rows_ -= offered->read.rows.size();
    };
    while (!offered->done) {
      if (leading_) {
        changed_.wait(lock);
      } else {
        Lead(lock);
      }
    }
  }
  FULCRUM_RETURN_IF_ERROR(offered->answers.status());
  std::vector<v1::OfferAnswer> answers;
  for (std::size_t i = 0; i < offered->answers->size(); ++i) {
    const RowAnswer& given = (*offered->answers)[i];
    v1::OfferAnswer& answer = answers.emplace_back();
    answer.set_item_id(request.items[static_cast<int>(i)].item_id());
    answer.set_decision(DecisionOf(given.decision));
    answer.set_score(given.score);
    answer.set_threshold(given.threshold);
  }
  return answers;
}

void CampaignStream::Lead(std::unique_lock<std::mutex>& lock) {
  leading_ = true;
  std::vector<Offered*> group;
  // Whatever is thrown: the others get what answers there are, and one of them leads.
  const absl::Cleanup end = [&] {
    if (!lock.owns_lock()) lock.lock();
    for (Offered* const answered : group) answered->done = true;
    leading_ = false;
    changed_.notify_all();
  };
  TakeGroup(group);
  lock.unlock();
  Answer(group);
}

void CampaignStream::TakeGroup(std::vector<Offered*>& group) {
  std::set<std::pair<std::string, std::string>> requests;
  std::size_t rows = 0;
  while (!queue_.empty()) {
    Offered* const next = queue_.front();
    // The second of two requests with one id is a repeat of the first, which must be in the log for that.
    const bool fits = group.empty() || rows + next->read.rows.size() <= kMostOfferedRows;
    if (!fits || !requests.emplace(next->group.by, next->group.request_id).second) break;
    group.push_back(next);
    queue_.pop_front();
    rows += next->read.rows.size();
    queued_rows_ -= next->read.rows.size();
  }
}

std::vector<CampaignStream::Offered*> CampaignStream::AnswerRepeated(const std::vector<Offered*>& group) {
  std::vector<Offered*> fresh;
  for (Offered* const offered : group) {
    const auto record = store_.Run(storage::FindOffer, offered->group);
    if (record.ok() && !*record) {
      fresh.push_back(offered);
      continue;
    }
    const absl::StatusOr<OfferRecord> stored = record.ok() ? DecodeRecord(**record) : record.status();
    if (stored.ok()) {
      offered->answers = stored->answers;
    } else {
      offered->answers = stored.status();
    }
  }
  return fresh;
}

void CampaignStream::Answer(const std::vector<Offered*>& group) {
  const absl::Status status = RunGuarded([&]() -> absl::Status {
    absl::Status decided = absl::AbortedError("");
    for (int attempt = 0; attempt < kMostAttempts && absl::IsAborted(decided); ++attempt) {
      std::vector<Offered*> fresh = AnswerRepeated(group);
      decided = DecideAndWrite(fresh);
      for (Offered* const offered : fresh) {
        if (decided.ok()) {
          offered->answers = offered->record.answers;
        } else {
          offered->answers = decided;
        }
      }
    }
    return absl::OkStatus();
  });
  if (status.ok()) return;
  // What was computed halfway is not what the log says.
  waiting_.ForgetUncommitted();
  selector_.reset();
  for (Offered* const offered : group) offered->answers = status;
}

absl::Status CampaignStream::DecideAndWrite(std::vector<Offered*>& fresh) {
  if (fresh.empty()) return absl::OkStatus();
  if (waiting_.bytes() > kMostWaitingBytes) {
    return absl::ResourceExhaustedError("too many rows wait to be put into the pool; try again later");
  }
  FULCRUM_RETURN_IF_ERROR(FollowRound());
  const std::string before = selector_->State();
  const Since since = since_complete_;
  const auto undo = [&] {
    waiting_.ForgetUncommitted();
    since_complete_ = since;
    return selector_->Restore(before);
  };
  while (Offered* const bad = DecideAll(fresh)) {
    FULCRUM_RETURN_IF_ERROR(undo());
    std::erase(fresh, bad);
  }
  const absl::Status written = Write(fresh);
  if (written.ok()) return absl::OkStatus();
  FULCRUM_RETURN_IF_ERROR(undo());
  return written;
}

CampaignStream::Offered* CampaignStream::DecideAll(const std::vector<Offered*>& fresh) {
  for (Offered* const offered : fresh) offered->record = {};
  const double now = std::chrono::duration<double>(store_.Now().time_since_epoch()).count();
  for (Offered* const offered : fresh) {
    if (const absl::Status decided = Decide(*offered, now); !decided.ok()) {
      offered->answers = decided;
      return offered;
    }
  }
  return nullptr;
}

absl::Status CampaignStream::Write(const std::vector<Offered*>& decided) {
  storage::OfferRowsRequest request{.after = decided_rows_};
  for (Offered* const offered : decided) {
    storage::OfferedGroup& group = offered->group;
    if (group.rows == 0) continue;  // all of its rows exist already
    group.model = round_;
    group.record = EncodeRecord(offered->record);
    request.groups.push_back(group);
    decided_rows_ += group.rows;
  }
  if (request.groups.empty()) return absl::OkStatus();
  const std::int64_t before = request.after;
  const auto sequence = store_.Run(storage::OfferRows, std::move(request));
  if (!sequence.ok()) {
    decided_rows_ = before;
    return sequence.status();
  }
  waiting_.Commit(*sequence);
  NoteDrifting();
  // Before every round it is done anyway; what fails here is tried again by the next rows.
  if (waiting_.bytes() > kStoredBytes) Store().IgnoreError();
  return absl::OkStatus();
}

bool CampaignStream::IsKept(const std::string& id, double share) {
  if (share <= 0 || share >= 1) return share >= 1;
  // The fingerprints of similar ids have similar leading digits.
  Random random(static_cast<std::uint64_t>(storage::Fingerprint({"keep", id})));
  return static_cast<double>(random.Next() >> 11) < share * 0x1p53;
}

absl::Status CampaignStream::Decide(Offered& offered, double seconds) {
  storage::OfferedGroup& group = offered.group;
  group.rows = group.kept = group.alarms = 0;
  group.taken.clear();
  offered.record = {};
  const double keep_share = plan_()->stream->keep_share;
  FULCRUM_ASSIGN_OR_RETURN(const Matrix<double> rows, Normalized(*offered.read.features));
  for (std::size_t i = 0; i < rows.rows(); ++i) {
    OfferedRow& row = offered.read.rows[i];
    RowAnswer& answer = offered.record.answers.emplace_back();
    // In this order: rows that are put into files leave the first when the second has them.
    if (waiting_.Has(row.id) || pool_.now()->ids().Find(row.id)) {
      answer.decision = RowDecision::kExisting;
      continue;
    }
    const auto decision = selector_->Offer(rows.row(i), seconds);
    if (!decision.ok()) {
      return absl::Status(decision.status().code(),
                          absl::StrCat("the row '", PrintableLine(row.id), "': ", decision.status().message()));
    }
    answer = {.decision = decision->take ? RowDecision::kLabel : RowDecision::kSkip,
              .score = decision->score,
              .threshold = decision->threshold};
    ++group.rows;
    if (decision->take) group.taken.push_back({.item = row.id, .cost = row.cost});
    if (decision->drift_alarm) {
      ++group.alarms;
      NoteDrift(offered, i);
    }
    if (!decision->take && !IsKept(row.id, keep_share)) continue;
    ++group.kept;
    offered.record.kept.push_back({.place = static_cast<std::uint32_t>(i), .row = row});
    // From now on annotators may ask for it, and another row of this name is an existing one.
    waiting_.Add(row, WaitingRows::kNotCommitted);
  }
  if (group.rows == 0) return absl::OkStatus();
  since_complete_.rows += group.rows;
  ++since_complete_.records;
  group.complete =
      since_complete_.due || since_complete_.rows >= kRowsPerState || since_complete_.records >= kRecordsPerState;
  if (group.complete) since_complete_ = {.due = false};
  offered.record.model = selector_->model().fingerprint();
  offered.record.seconds = seconds;
  offered.record.state = group.complete ? selector_->State() : selector_->DriftState();
  return absl::OkStatus();
}

void CampaignStream::NoteDrifting() {
  const std::scoped_lock lock(mutex_);
  drifting_ = selector_->drift().drifting;
}

void CampaignStream::NoteDrift(const Offered& offered, std::size_t row) const {
  Log(LogLevel::kWarning, "rows of the stream are not distributed as those of the pool",
      {{"campaign", plan_()->name},
       {"up_to", PrintableLine(offered.read.rows[row].id)},
       {"statistic", selector_->drift().statistic}});
}

absl::StatusOr<Matrix<double>> CampaignStream::Normalized(const kernel::Features& features) const {
  ingest::PoolFeatures rows(Matrix<double>::CopyOf(features.in_memory()->values()));
  if (!normalize_.empty()) {
    FULCRUM_ASSIGN_OR_RETURN(const auto normalizer, pool_.now()->NormalizerFor(normalize_));
    normalizer->Apply(rows);
    rows.MakeDense();
  }
  return std::move(rows.dense());
}

absl::StatusOr<RoundStreamModel> CampaignStream::ModelOf(std::int64_t round) const {
  const std::shared_ptr<const CampaignPlan> plan = plan_();
  if (round > 0) {
    absl::StatusOr<RoundStreamModel> model = ReadStreamModel(store_.folder(), round);
    if (model.ok()) return model;
    Log(LogLevel::kWarning, "rows of the stream are decided without the classifier until the next round",
        {{"campaign", plan->name}, {"round", round}, {"reason", std::string(model.status().message())}});
  }
  return FirstStreamModel(*plan, *pool_.now());
}

absl::Status CampaignStream::FollowRound() {
  const std::int64_t round = store_.status()->round;
  if (selector_ && round_ == round) return absl::OkStatus();
  FULCRUM_ASSIGN_OR_RETURN(RoundStreamModel current, ModelOf(round));
  if (selector_) {
    FULCRUM_RETURN_IF_ERROR(selector_->UseModel(current.model));
    normalize_ = std::move(current.normalize);
    since_complete_.due = true;
  } else {
    FULCRUM_RETURN_IF_ERROR(Continue(current));
  }
  round_ = round;
  return absl::OkStatus();
}

absl::Status CampaignStream::Repeat(const OfferRecord& record, bool same_model,
                                    stream::StreamSelector& selector) const {
  Matrix<double> rows;
  if (same_model && !record.kept.empty()) {
    Matrix<double> raw(record.kept.size(), record.kept.front().row.features.size());
    for (std::size_t k = 0; k < raw.rows(); ++k) {
      if (record.kept[k].row.features.size() != raw.cols())
        return absl::DataLossError("rows of the log differ in width");
      std::ranges::copy(record.kept[k].row.features, raw.row(k).begin());
    }
    FULCRUM_ASSIGN_OR_RETURN(const auto features, pool_.now()->PrepareRows(ingest::PoolFeatures(std::move(raw))));
    FULCRUM_ASSIGN_OR_RETURN(rows, Normalized(*features));
  }
  std::size_t kept = 0;
  for (std::size_t place = 0; place < record.answers.size(); ++place) {
    const RowAnswer& answer = record.answers[place];
    std::span<const double> row;
    if (kept < record.kept.size() && record.kept[kept].place == place) {
      if (!rows.empty()) row = std::as_const(rows).row(kept);
      ++kept;
    }
    if (answer.decision == RowDecision::kExisting) continue;
    selector.Repeat(answer.score, record.seconds, answer.decision == RowDecision::kLabel, row);
  }
  return absl::OkStatus();
}

absl::Status CampaignStream::Continue(const RoundStreamModel& current) {
  normalize_ = current.normalize;
  FULCRUM_ASSIGN_OR_RETURN(stream::StreamSelector selector,
                           stream::StreamSelector::Make(current.model, plan_()->stream->options));
  FULCRUM_ASSIGN_OR_RETURN(const storage::OfferRecordsAnswer log, store_.Run(storage::ReadOffers, {}));
  decided_rows_ = log.figures.rows;
  since_complete_ = {};
  bool same_model = true;
  for (const storage::StoredOffer& stored : log.records) {
    if (stored.sequence < log.figures.complete) continue;
    FULCRUM_ASSIGN_OR_RETURN(const OfferRecord record, DecodeRecord(stored.offered.record));
    same_model = record.model == current.model->fingerprint();
    if (stored.sequence == log.figures.complete) {
      FULCRUM_RETURN_IF_ERROR(selector.Restore(record.state));
      since_complete_ = {.due = false};
      continue;
    }
    FULCRUM_RETURN_IF_ERROR(Repeat(record, same_model, selector));
    FULCRUM_RETURN_IF_ERROR(selector.RestoreDrift(record.state, same_model));
    since_complete_.rows += stored.offered.rows;
    ++since_complete_.records;
  }
  // What was repeated is of the model before: the budget goes on, and the rest is learned anew.
  if (!same_model) {
    FULCRUM_RETURN_IF_ERROR(selector.UseModel(current.model));
    since_complete_.due = true;
  }
  selector_.emplace(std::move(selector));
  NoteDrifting();
  return absl::OkStatus();
}

bool CampaignStream::drifting() const {
  const std::scoped_lock lock(mutex_);
  return drifting_;
}

namespace {

constexpr double kDefaultKeepShare = 0.1;
constexpr double kDefaultPeriod = 3600;
constexpr double kShortestPeriod = 1e-3;

}  // namespace

StreamPlan PlanStream(const v1::StreamSpec& spec,
                      const std::function<void(const std::string& path, const std::string& what)>& problem) {
  StreamPlan plan;
  plan.options.budget.share = spec.share();
  if (spec.has_labels()) {
    double seconds = kDefaultPeriod;
    if (spec.has_period()) {
      seconds = static_cast<double>(spec.period().seconds()) + 1e-9 * static_cast<double>(spec.period().nanos());
    }
    plan.options.budget.per_second = spec.labels() / std::max(seconds, kShortestPeriod);
  }
  if (spec.has_share() == spec.has_labels()) {
    problem("selection.stream", "needs a budget: either 'share', of the rows, or 'labels' and a 'period'");
  } else if (spec.has_period() && !spec.has_labels()) {
    problem("selection.stream.period", "is the time of 'labels'; leave it out with 'share'");
  }
  if (spec.has_novelty()) plan.options.novelty_weight = spec.novelty();
  if (spec.has_drift_window()) {
    plan.options.drift.window = static_cast<std::size_t>(std::max(spec.drift_window(), 1));
  }
  if (spec.has_drift_rate()) plan.options.drift.false_alarm_rate = spec.drift_rate();
  if (spec.keep() == v1::StreamSpec::KEEP_ALL) plan.keep_share = 1;
  if (spec.keep() == v1::StreamSpec::KEEP_SAMPLE) {
    plan.keep_share = spec.has_keep_share() ? spec.keep_share() : kDefaultKeepShare;
  } else if (spec.has_keep_share()) {
    problem("selection.stream.keep_share", "needs 'keep: sample'");
  }
  return plan;
}

}  // namespace fulcrum::pipeline
