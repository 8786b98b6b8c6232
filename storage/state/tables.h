// The tables of a campaign's state besides items and leases: rounds and models, requests, the activity of annotators,
// rows of a stream, and the task of a model process.
//
// A table changes by its transitions only, one per kind of event. Used by one thread at a time.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/container/node_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "storage/checkpoint/checkpoint.h"
#include "storage/log/event.h"
#include "storage/state/campaign_records.h"

namespace fulcrum::storage {

// Rounds, and the models that were trained in them.
//
// At most one round is open: the last one. It counts what becomes of its items. Rounds and models from before the
// checkpoint are read when they are needed.

class RoundTable {
 public:
  // Transitions; DataLoss if the event cannot have happened.

  absl::Status Open(const BatchCommitted& committed, Time at);
  absl::Status AddItem(const ItemBatched& batched);
  /// Returns the items of the round, in the order of their ranks.
  absl::StatusOr<std::vector<std::string>> Close(const RoundClosed& closed, Time at);
  /// Counts an item of the open round by its new status; nothing happens for other items.
  void Count(const StatusChange& change);
  /// Moves the start of the open round.
  void Shift(std::chrono::microseconds gap);
  void AddModel(StoredModel model);

  /// RollBack undoes everything since Begin, except for Shift; Accept ends it.
  void Begin();
  void Accept();
  void RollBack();

  // Queries.

  /// Rounds are numbered from 1, without gaps.
  std::int64_t count() const { return older_ + static_cast<std::int64_t>(rounds_.size()); }
  /// Null for a number that is not a round's.
  const Round* Find(std::int64_t number) const;
  /// Null before the first round.
  const Round* last() const { return rounds_.empty() ? nullptr : &rounds_.back(); }
  /// The round whose items are offered; null between rounds.
  const Round* open() const { return rounds_.empty() || !rounds_.back().open ? nullptr : &rounds_.back(); }
  /// Items of the open round, in the order of their ranks.
  const std::vector<std::string>& open_items() const { return open_items_; }
  /// In order.
  void Visit(const std::function<void(const Round&)>& visit) const;

  std::int64_t model_count() const { return older_models_ + static_cast<std::int64_t>(models_.size()); }
  /// The last model of a round, or of all rounds for round 0; null if there is none.
  const StoredModel* FindModel(std::int64_t round) const;
  /// In order.
  void VisitModels(const std::function<void(const StoredModel&)>& visit) const;

  /// Rounds and models that changed since the last ForgetChanges.
  const absl::flat_hash_set<std::int64_t>& changed() const { return changed_; }
  std::span<const StoredModel> new_models() const { return std::span(models_).subspan(written_models_); }
  void ForgetChanges();

  /// The last of `rounds` rounds is loaded.
  void ReadFrom(Checkpoint& base, std::int64_t rounds, std::vector<std::string> open_items, std::int64_t models);
  /// Loads everything, and does not need the checkpoint any more.
  void LoadAll();

 private:
  absl::StatusOr<Round*> RequireOpen(std::int64_t number);

  std::vector<Round> rounds_;            ///< those after the first `older_`
  std::vector<std::string> open_items_;  ///< of the open round, in the order of their ranks
  std::vector<StoredModel> models_;      ///< those after the first `older_models_`
  absl::flat_hash_set<std::int64_t> changed_;
  std::size_t written_models_ = 0;

  Checkpoint* base_ = nullptr;
  std::int64_t older_ = 0;
  std::int64_t older_models_ = 0;
  // What was read from the checkpoint, by round.
  mutable absl::node_hash_map<std::int64_t, Round> read_rounds_;
  mutable absl::node_hash_map<std::int64_t, StoredModel> read_models_;

  /// As it was at Begin.
  struct Before {
    std::size_t rounds = 0;
    std::vector<Round> last = {};  ///< none or one
    std::size_t open_items = 0;
    std::size_t models = 0;
    bool closed = false;  ///< open_items_ was moved to closed_items
    std::vector<std::string> closed_items = {};
  };
  bool keeps_ = false;  ///< between Begin and its end
  Before before_;
};

// Requests that took effect, so that none does twice.
//
// A request is known by two hashes of its annotator and its id: texts would take several times the memory. Requests
// from before the checkpoint are looked up in it.

class RequestTable {
 public:
  /// Notes the request of an event. DataLoss if it took effect before: a request may cause several events, but only
  /// consecutive ones.
  absl::Status Note(const Event& event);

  /// Sequence of the first event that a request caused.
  std::optional<std::int64_t> Find(absl::string_view annotator, absl::string_view request_id) const;
  std::optional<std::int64_t> Find(const RequestKey& key) const;
  std::size_t size() const { return base_count_ + requests_.size(); }
  /// Those that are in memory, in any order.
  void Visit(const std::function<void(const KnownRequest&)>& visit) const;

  /// The request of the last event; zeros if it had none.
  const RequestKey& last() const { return last_; }
  void ReadFrom(Checkpoint& base, std::size_t count, const RequestKey& last);
  /// Loads everything, and does not need the checkpoint any more.
  void LoadAll();

  /// Requests that are not in the checkpoint's table yet. At most so many are taken, in the order of their keys.
  std::vector<KnownRequest> TakeNew(std::size_t most);
  void PutBack(const std::vector<KnownRequest>& requests);
  bool has_new() const { return !new_.empty(); }
  void ForgetNew() { new_.clear(); }

  /// RollBack undoes everything since Begin.
  void Begin();
  void RollBack();

 private:
  absl::flat_hash_map<RequestKey, std::int64_t> requests_;
  std::vector<KnownRequest> new_;
  RequestKey last_ = {};
  Checkpoint* base_ = nullptr;
  std::size_t base_count_ = 0;

  std::size_t new_before_ = 0;  ///< as it was at Begin, like the next one
  RequestKey last_before_ = {};
};

// What the annotators of a campaign have done so far, in numbers: what assignment and budgets depend on.
//
// Derived from the log like the other tables; the report of annotators reads the log itself and knows more.

struct AnnotatorActivity {
  std::int64_t answers = 0;
  std::int64_t skips = 0;    ///< as unsure or as a bad item
  std::int64_t expired = 0;  ///< leases
  double cost = 0;           ///< of the answers
  std::int64_t timed = 0;    ///< answers in time
  std::int64_t micros = 0;   ///< that these took

  bool operator==(const AnnotatorActivity&) const = default;
  AnnotatorActivity& operator+=(const AnnotatorActivity& more);
  /// What an answer takes on average; 0 without answers.
  double MeanSeconds() const {
    return timed == 0 ? 0 : static_cast<double>(micros) * 1e-6 / static_cast<double>(timed);
  }
};

class ActivityTable {
 public:
  using ByName = std::map<std::string, AnnotatorActivity, std::less<>>;

  /// Nothing but zeros for an annotator who has done nothing.
  AnnotatorActivity Of(absl::string_view annotator) const;
  const ByName& all() const { return activities_; }

  /// Of all annotators together.
  const AnnotatorActivity& total() const { return total_; }

  void Add(const std::string& annotator, const AnnotatorActivity& more);

  // The task that an annotator works on: one after the other, in the time since the first was leased or the one before
  // was answered or skipped.

  /// A task was leased. Nothing happens if the annotator is at work on another one.
  void StartWork(const std::string& annotator, Time at);
  /// The task at hand was answered or skipped; `more_tasks`: the annotator holds others.
  void EndWork(const std::string& annotator, Time at, bool more_tasks);
  /// What the task at hand has taken so far: at most `most`, and, since breaks are not work, at most some multiple of
  /// the usual time. Nothing if it is not known.
  std::optional<std::chrono::microseconds> WorkTime(absl::string_view annotator, Time at,
                                                    std::chrono::microseconds most) const;
  /// Annotators who hold tasks.
  std::size_t at_work() const { return work_.size(); }
  /// Time has passed that does not count.
  void Shift(std::chrono::microseconds gap);

  /// RollBack undoes everything since Begin, except for Shift; Accept ends it.
  void Begin();
  void Accept();
  void RollBack();

  std::string ToText() const;
  /// DataLoss if ToText did not write the rows.
  static absl::StatusOr<ActivityTable> FromRows(const std::vector<std::vector<std::string>>& rows);
  /// Since when the task at hand takes time, by annotator.
  std::string WorkToText() const;
  absl::Status ReadWork(const std::vector<std::vector<std::string>>& rows);

 private:
  void KeepWork(const std::string& annotator);

  ByName activities_;
  std::map<std::string, Time, std::less<>> work_;
  AnnotatorActivity total_;
  AnnotatorActivity total_before_;
  std::vector<std::pair<std::string, std::optional<AnnotatorActivity>>> before_;  // as they were, oldest first
  std::vector<std::pair<std::string, std::optional<Time>>> work_before_;          // the same
  bool keeps_ = false;
};

// What a stream of rows has brought a campaign: figures of what was decided, and the items that were taken.
//
// A row that is taken is an item at once. It is a task of the open round; between rounds, and if a round ends without
// an answer to it, it waits for the next batch, which it then belongs to. The rows themselves are in the log until they
// are stored in the pool's files.

struct OfferedFigures {
  std::int64_t rows = 0;  ///< decided so far
  std::int64_t taken = 0;
  std::int64_t alarms = 0;    ///< windows of rows that were not distributed as those of the pool
  std::int64_t waiting = 0;   ///< rows that are to join the pool and are in no file of it yet
  std::int64_t first = 0;     ///< sequence of the first RowsOffered with such rows; 0: there are none
  std::int64_t last = 0;      ///< sequence of the last RowsOffered; 0: there was none
  std::int64_t complete = 0;  ///< the same of the last one with the whole state
  std::int64_t stored = 0;    ///< rows up to this RowsOffered are in the pool's files
  std::int64_t in_round = 0;  ///< items of the open round that a stream brought

  bool operator==(const OfferedFigures&) const = default;
};

class OfferedRows {
 public:
  const OfferedFigures& figures() const { return figures_; }
  /// Items that were taken, in their order, without those that were decided when the last round began.
  const std::vector<std::string>& taken() const { return taken_; }

  // Transitions; DataLoss if the event cannot have happened.

  absl::Status Offer(const RowsOffered& offered, std::int64_t sequence);
  /// `in_round`: a round is open, and the item is one of its tasks.
  void Take(const std::string& item, bool in_round);
  absl::Status Store(const OfferedRowsStored& stored);
  /// Forgets the items that need no more answers. The round begins with `carried` of the others.
  void OpenRound(const std::function<bool(const std::string& item)>& is_decided, std::int64_t carried);
  void CloseRound() { figures_.in_round = 0; }

  /// RollBack undoes everything since Begin; Accept ends it.
  void Begin();
  void Accept();
  void RollBack();

  /// For a checkpoint.
  std::string ToText() const;
  static absl::StatusOr<OfferedRows> FromText(const std::string& text);

 private:
  OfferedFigures figures_;
  std::vector<std::string> taken_;
  // As they were at Begin.
  OfferedFigures figures_before_;
  std::size_t taken_before_ = 0;
  std::optional<std::vector<std::string>> pruned_;  ///< taken_, if OpenRound has changed it
};

/// Features of the rows of a pool that a model process returned.
struct ModelFeatures {
  std::int64_t round = 0;  ///< that they were returned for
  std::int64_t rows = 0;   ///< that they are of
  std::string file = {};   ///< relative to the campaign's folder; empty: none
  std::string checksum = {};
  bool operator==(const ModelFeatures&) const = default;
  bool empty() const { return file.empty(); }
};

// The task of a round that waits for the predictions of a model process: who has it, until when, and what came of it.
//
// A campaign has at most one: that of the next round, or the last one. It changes by its transitions only, one per kind
// of event; DataLoss if the event cannot have happened. A plain value.

struct ModelTask {
  std::int64_t id = 0;  ///< sequence of the event that opened it
  std::int64_t round = 0;
  std::int64_t rows = 0;  ///< to predict
  Time since = {};        ///< when it was opened, or the campaign was resumed after that

  std::int64_t epoch = 0;    ///< of the latest lease; only grows
  std::int64_t lease = 0;    ///< the live lease, or 0
  std::string process = {};  ///< that has the lease, or that returned the predictions
  Time expires_at = {};      ///< of the live lease

  std::string file = {};  ///< the predictions, relative to the campaign's folder; empty: none yet
  std::string checksum = {};
  std::string closed = {};  ///< why the round does without predictions; empty: it does not

  ModelFeatures features = {};  ///< that came with the predictions
  ModelFeatures before = {};    ///< the last ones that came with those of an earlier round

  bool operator==(const ModelTask&) const = default;
  bool answered() const { return !file.empty(); }
  /// The round waits for it.
  bool open() const { return file.empty() && closed.empty(); }

  absl::Status Grant(const ModelLeaseGranted& granted, std::int64_t sequence, const std::string& by);
  absl::Status Renew(const ModelLeaseRenewed& renewed);
  absl::Status EndLease(const ModelLeaseEnded& ended);
  absl::Status Answer(const PredictionsStored& stored, const std::string& by);
  /// What the task of a later opening has as `before`.
  const ModelFeatures& FeaturesBefore(std::int64_t later_round) const {
    return features.empty() || round >= later_round ? before : features;
  }
  absl::Status Close(const ModelTaskClosed& closed_task);
  /// Time that does not count has passed.
  void Shift(std::chrono::microseconds gap);
  /// It waits from now on.
  void Restart(Time now);
};

/// As a checkpoint stores it.
std::string ModelTaskText(const ModelTask& task);
absl::StatusOr<ModelTask> ParseModelTask(const std::string& text);

}  // namespace fulcrum::storage
