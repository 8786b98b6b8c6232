// What can happen in a campaign: one type per kind of event, and how events are stored.
//
// The log is the only truth of a campaign; everything else is derived from it by CampaignState::Apply. In the program
// an event is typed; in the table it is a row whose columns are shared by all kinds. EncodeEvent and DecodeEvent are
// the only functions that know which kind uses which column. Kinds, their numbers and their columns are part of the
// file format: add, never change. Plain values.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <variant>

#include "absl/status/statusor.h"
#include "storage/clock.h"

namespace fulcrum::storage {

/// The time since the event before does not count for leases and rounds; negative if the clock was set back.
struct StoreOpened {
  std::chrono::microseconds gap{0};
  bool operator==(const StoreOpened&) const = default;
};

struct SettingsChanged {
  std::string settings = {};  ///< CampaignSettings as text
  bool operator==(const SettingsChanged&) const = default;
};

struct LifeChanged {
  std::string life = {};  ///< the name of a Life
  std::string reason = {};
  bool operator==(const LifeChanged&) const = default;
};

struct BatchCommitted {
  std::int64_t round = 0;
  std::int64_t based_on = 0;  ///< log sequence that the batch is a function of
  std::string files = {};     ///< of the round, one name per line
  std::int64_t carried = 0;   ///< items that a stream brought, which come before those of the batch
  bool operator==(const BatchCommitted&) const = default;
};

struct ItemBatched {
  std::string item = {};
  std::int64_t round = 0;
  std::int64_t rank = 0;  ///< in the batch
  double cost = 0;        ///< of one label
  bool operator==(const ItemBatched&) const = default;
};

struct RoundClosed {
  std::int64_t round = 0;
  std::string reason = {};
  bool operator==(const RoundClosed&) const = default;
};

struct ModelStored {
  std::int64_t round = 0;
  std::int64_t trained_on = 0;  ///< log sequence that the model is a function of
  std::string file = {};
  std::string checksum = {};  ///< of the file
  std::string record = {};    ///< what is known of the model, as text of the trainer
  bool operator==(const ModelStored&) const = default;
};

/// The annotator is who appended them.
struct RowsAppended {
  std::int64_t rows = 0;
  std::string folder = {};
  std::string answer = {};  ///< what was answered
  bool operator==(const RowsAppended&) const = default;
};

/// The next round does not use the models before.
struct RetrainRequested {
  bool operator==(const RetrainRequested&) const = default;
};

/// Its sequence is the lease's id.
struct LeaseGranted {
  std::string item = {};
  std::int64_t slot = 0;
  std::int64_t epoch = 0;
  std::int64_t round = 0;
  Time expires_at = {};
  bool operator==(const LeaseGranted&) const = default;
};

struct LeaseRenewed {
  std::int64_t lease = 0;
  std::int64_t epoch = 0;
  Time expires_at = {};
  bool operator==(const LeaseRenewed&) const = default;
};

struct LeaseReleased {
  std::int64_t lease = 0;
  std::int64_t epoch = 0;
  bool operator==(const LeaseReleased&) const = default;
};

struct LeaseExpired {
  std::int64_t lease = 0;
  std::int64_t epoch = 0;
  bool operator==(const LeaseExpired&) const = default;
};

struct LabelSubmitted {
  std::string item = {};
  std::int64_t slot = 0;
  std::int64_t lease = 0;
  std::int64_t epoch = 0;
  std::int64_t round = 0;
  std::string value = {};
  double cost = 0;
  bool late = false;  ///< its lease had ended
  bool operator==(const LabelSubmitted&) const = default;
};

struct LabelChanged {
  std::string item = {};
  std::string value = {};
  bool operator==(const LabelChanged&) const = default;
};

struct LabelWithdrawn {
  std::string item = {};
  bool operator==(const LabelWithdrawn&) const = default;
};

/// The annotator is where the label comes from.
struct LabelImported {
  std::string item = {};
  std::string value = {};
  double cost = 0;  ///< of one answer, if annotators are asked about it
  bool operator==(const LabelImported&) const = default;
};

struct TaskSkipped {
  std::string item = {};
  std::int64_t slot = 0;
  std::int64_t lease = 0;
  std::int64_t epoch = 0;
  std::int64_t round = 0;
  std::string reason = {};  ///< the name of a SkipReason
  bool operator==(const TaskSkipped&) const = default;
};

struct ItemSetAside {
  std::string item = {};
  std::string reason = {};
  bool operator==(const ItemSetAside&) const = default;
};

/// Its votes give no decision, and there is no annotator left to ask.
struct ItemDisputed {
  std::string item = {};
  std::string reason = {};
  bool operator==(const ItemDisputed&) const = default;
};

/// The annotator is the administrator who decided it.
struct ItemResolved {
  std::string item = {};
  std::string value = {};
  std::string reason = {};
  bool operator==(const ItemResolved&) const = default;
};

/// To the pool, or to the open round.
struct ItemReturned {
  std::string item = {};
  std::string reason = {};
  bool operator==(const ItemReturned&) const = default;
};

/// A round waits for the predictions of a model process. Its sequence is the task's id.
struct ModelTaskOpened {
  std::int64_t round = 0;
  std::int64_t rows = 0;  ///< to predict
  bool operator==(const ModelTaskOpened&) const = default;
};

/// The annotator is the process. Its sequence is the lease's id.
struct ModelLeaseGranted {
  std::int64_t round = 0;
  std::int64_t epoch = 0;
  Time expires_at = {};
  bool operator==(const ModelLeaseGranted&) const = default;
};

struct ModelLeaseRenewed {
  std::int64_t lease = 0;
  std::int64_t epoch = 0;
  Time expires_at = {};
  bool operator==(const ModelLeaseRenewed&) const = default;
};

struct ModelLeaseEnded {
  std::int64_t lease = 0;
  std::int64_t epoch = 0;
  std::string reason = {};  ///< "released" or "expired"
  bool operator==(const ModelLeaseEnded&) const = default;
};

/// The annotator is the process that returned them.
struct PredictionsStored {
  std::int64_t round = 0;
  std::int64_t lease = 0;
  std::int64_t epoch = 0;
  std::string file = {};
  std::string checksum = {};           ///< of the file
  bool late = false;                   ///< its lease had ended
  std::string features_file = {};      ///< new features of the rows; empty: none
  std::string features_checksum = {};  ///< of that file
  bool operator==(const PredictionsStored&) const = default;
};

/// The round does without the predictions of a model process.
struct ModelTaskClosed {
  std::int64_t round = 0;
  std::string reason = {};
  bool operator==(const ModelTaskClosed&) const = default;
};

/// Its votes decide it as they are, although more were wanted: there is no annotator left to ask.
struct VotesAccepted {
  std::string item = {};
  std::string reason = {};
  bool operator==(const VotesAccepted&) const = default;
};

/// Rows of a stream were decided. The annotator is who offered them.
struct RowsOffered {
  std::int64_t rows = 0;   ///< that were decided
  std::int64_t taken = 0;  ///< of those: the next so many events are about them
  std::int64_t kept = 0;   ///< that are to join the pool, the taken ones included
  std::int64_t alarms = 0;
  std::int64_t model = 0;   ///< the round whose model they were compared with; 0: before the first
  bool complete = false;    ///< the record has the whole state of the decisions after it
  std::string record = {};  ///< what was decided, as text of the decider
  bool operator==(const RowsOffered&) const = default;
};

/// A row of a stream is an item, and a task of the open round; between rounds it waits for the next batch.
struct ItemTaken {
  std::string item = {};
  double cost = 0;  ///< of one label
  bool operator==(const ItemTaken&) const = default;
};

/// Rows that were offered are in the pool's files now.
struct OfferedRowsStored {
  std::int64_t rows = 0;
  std::string folder = {};
  std::int64_t through = 0;  ///< sequence of the last RowsOffered that is included
  bool operator==(const OfferedRowsStored&) const = default;
};

/// How good the annotators are, estimated from all votes before; the consensus of votes follows from it.
struct AnnotatorsEstimated {
  std::int64_t votes = 0;  ///< that were submitted until then
  std::string crowd = {};  ///< Crowd as text
  bool operator==(const AnnotatorsEstimated&) const = default;
};

/// What a classifier says about some items, from now on; the consensus of their votes follows from it too.
struct ClassifierHeard {
  std::int64_t round = 0;   ///< whose model says it
  std::string voices = {};  ///< Voices as text
  bool operator==(const ClassifierHeard&) const = default;
};

/// An annotator gets no more tasks. Who caused the event is the administrator, or empty if a rule did.
struct AnnotatorPaused {
  std::string who = {};
  std::string reason = {};
  bool operator==(const AnnotatorPaused&) const = default;
};

struct AnnotatorResumed {
  std::string who = {};
  std::string reason = {};
  bool operator==(const AnnotatorResumed&) const = default;
};

using EventBody =
    std::variant<StoreOpened, SettingsChanged, LifeChanged, BatchCommitted, ItemBatched, RoundClosed, ModelStored,
                 RowsAppended, RetrainRequested, LeaseGranted, LeaseRenewed, LeaseReleased, LeaseExpired,
                 LabelSubmitted, LabelChanged, LabelWithdrawn, LabelImported, TaskSkipped, ItemSetAside, ItemReturned,
                 ItemDisputed, ItemResolved, ModelTaskOpened, ModelLeaseGranted, ModelLeaseRenewed, ModelLeaseEnded,
                 PredictionsStored, ModelTaskClosed, VotesAccepted, AnnotatorsEstimated, AnnotatorPaused,
                 AnnotatorResumed, RowsOffered, ItemTaken, OfferedRowsStored, ClassifierHeard>;

struct Event {
  std::int64_t sequence = 0;     ///< from 1, without gaps; set by the ledger
  Time at = {};                  ///< never before the event before, except when the store was opened; set by the ledger
  std::string annotator = {};    ///< who caused it; empty if the store did
  std::string request_id = {};   ///< empty if it came from the store itself
  std::int64_t fingerprint = 0;  ///< of the request's content
  EventBody body = {};

  bool operator==(const Event&) const = default;
};

/// The numbers by which kinds are stored.
enum class EventKind : std::int64_t {
  kStoreOpened = 1,
  kSettingsChanged = 2,
  kLifeChanged = 3,
  kBatchCommitted = 10,
  kItemBatched = 11,
  kRoundClosed = 12,
  kModelStored = 13,
  kRowsAppended = 14,
  kRetrainRequested = 15,
  kRowsOffered = 16,
  kItemTaken = 17,
  kOfferedRowsStored = 18,
  kLeaseGranted = 20,
  kLeaseRenewed = 21,
  kLeaseReleased = 22,
  kLeaseExpired = 23,
  kLabelSubmitted = 30,
  kLabelChanged = 31,
  kLabelWithdrawn = 32,
  kLabelImported = 33,
  kTaskSkipped = 40,
  kItemSetAside = 41,
  kItemReturned = 42,
  kItemDisputed = 43,
  kItemResolved = 44,
  kModelTaskOpened = 50,
  kModelLeaseGranted = 51,
  kModelLeaseRenewed = 52,
  kModelLeaseEnded = 53,
  kPredictionsStored = 54,
  kModelTaskClosed = 55,
  kVotesAccepted = 45,
  kAnnotatorsEstimated = 60,
  kAnnotatorPaused = 61,
  kAnnotatorResumed = 62,
  kClassifierHeard = 63,
};

/// "lease_granted"; "unknown" for a number that is no kind.
const char* EventKindName(EventKind kind);
EventKind KindOf(const EventBody& body);

/// An event as the table has it. Columns that a kind does not use are zero or empty, and NULL in the table.
struct EventRow {
  std::int64_t sequence = 0;
  EventKind kind = EventKind::kStoreOpened;
  Time at = {};
  std::string annotator = {};
  std::string request_id = {};
  std::int64_t fingerprint = 0;
  std::string item = {};
  std::int64_t slot = 0;
  std::int64_t lease = 0;
  std::int64_t epoch = 0;
  std::int64_t round = 0;
  std::string value = {};
  std::string reason = {};
  double cost = 0;
  std::int64_t number = 0;
  std::string detail = {};

  bool operator==(const EventRow&) const = default;
};

EventRow EncodeEvent(Event event);
/// DataLoss for a kind that is unknown.
absl::StatusOr<Event> DecodeEvent(EventRow row);

}  // namespace fulcrum::storage
