// The derived tables of campaign.db: the state of the campaign at one event of its log.
//
// Opening a campaign reads the checkpoint and the log after it. What is small is loaded at once (figures, the open
// round, items that are offered or leased); items, requests, old rounds and models are read when they are needed, so
// that the time to open does not depend on their number.
//
// A checkpoint is written in small groups of rows between commits. The rows that it replaces are kept in `item_before`
// until the last group is committed: the tables always contain a complete checkpoint, the new one or the one before. A
// row that is damaged is noted in damage(), and counts as missing; the owner then derives the state from the log alone.
// `item_event` has the events of each item: what it has of events after the checkpoint is not complete and not used.
//
// Belongs to one connection and its thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "storage/log/event_log.h"
#include "storage/sqlite/sqlite.h"
#include "storage/state/campaign_records.h"
#include "storage/state/lease_table.h"

namespace fulcrum::storage {

// Rows of the derived tables: how items, rounds and models are stored, and read again.
//
// Lists inside a row (votes, slots) are JSON arrays, so that SQLite's JSON functions read them too. A row of an item
// contains its slots and their live leases, and a checksum of its columns. Stateless and thread-safe.

/// An item with the live leases of its slots.
struct StoredItem {
  Item item = {};
  std::vector<Lease> leases = {};

  bool operator==(const StoredItem&) const = default;
};

StoredItem WithLeases(const Item& item, const LeaseTable& leases);
/// "item, status, ...": the columns in the order in which they are bound and read.
inline constexpr char kItemColumns[] =
    "item, status, value, reason, round, rank, cost, decided_sequence, imported, bad_reports, next_slot, "
    "first_sequence, "
    "votes, declined_by, slots, checksum";
absl::Status BindItem(const StoredItem& item, SqliteStatement& statement);
/// DataLoss if the row is not what was written.
absl::StatusOr<StoredItem> ReadItem(const SqliteStatement& row);
/// For messages: the columns of a row.
std::string Describe(const StoredItem& item);

inline constexpr char kRoundColumns[] =
    "round, status, started_us, closed_us, reason, items, labeled, disputed, set_aside, based_on, files";
absl::Status BindRound(const Round& round, SqliteStatement& statement);
Round ReadRound(const SqliteStatement& row);
std::string Describe(const Round& round);

inline constexpr char kModelColumns[] = "sequence, round, trained_on, file, checksum, record, at_us";
absl::Status BindModel(const StoredModel& model, SqliteStatement& statement);
StoredModel ReadModel(const SqliteStatement& row);

// Lists of records inside a column of a table, as JSON that SQLite's functions read too.
//
// A plain value for one thread; Parse is stateless.

/// A list of lists of texts as JSON: [["a","b"],["c"]]. Numbers are written as numbers.
class JsonRows {
 public:
  /// Starts the next inner list.
  JsonRows& Row();
  JsonRows& Add(absl::string_view text);
  JsonRows& Add(std::int64_t number);
  JsonRows& Add(double number);
  /// The whole list. No more can be added.
  std::string Take();

  /// DataLoss if the text is not a list that this class wrote. Numbers are returned as text.
  static absl::StatusOr<std::vector<std::vector<std::string>>> Parse(absl::string_view text);

 private:
  void Separate();

  std::string text_ = "[";
  bool in_row_ = false;
};

class CampaignState;
class RoundTable;

/// Identifies a request: two independent hashes of its annotator and its id.
using RequestKey = std::pair<std::uint64_t, std::uint64_t>;
struct KnownRequest {
  RequestKey key = {};
  std::int64_t sequence = 0;  ///< of the first event that it caused
};

class Checkpoint {
 public:
  /// The database must outlive the checkpoint and have the tables of the latest schema.
  static absl::StatusOr<std::unique_ptr<Checkpoint>> Open(SqliteDatabase& database);
  Checkpoint(const Checkpoint&) = delete;
  Checkpoint& operator=(const Checkpoint&) = delete;

  /// Reads the figures. DataLoss if they are damaged or of another version.
  absl::Status Load();
  /// The last event that the checkpoint includes; 0 if there is none.
  const LogPosition& position() const { return position_; }
  /// Why a row could not be read; OK if all could.
  const absl::Status& damage() const { return damage_; }
  /// The same for the first rows that could not be read.
  const std::vector<std::string>& damaged_rows() const { return damaged_rows_; }

  // Rows of the checkpoint.

  /// Figures by name, as texts.
  const std::map<std::string, std::string>& figures() const { return figures_; }
  std::optional<StoredItem> FindItem(absl::string_view id);
  std::optional<std::int64_t> FindRequest(const RequestKey& key);
  std::optional<Round> FindRound(std::int64_t number);
  /// The last model of a round, or of all for round 0.
  std::optional<StoredModel> FindModel(std::int64_t round);
  /// All items, or those that have slots.
  enum class Which { kAll, kLive };
  void VisitItems(const std::function<void(StoredItem)>& visit, Which which = Which::kAll);
  /// Items in a status whose ids come after `after`, in the order of their ids, until `visit` returns false.
  void VisitItems(ItemStatus status, absl::string_view after, const std::function<bool(const StoredItem&)>& visit);
  void VisitRequests(const std::function<void(const KnownRequest&)>& visit);
  void VisitRounds(const std::function<void(const Round&)>& visit);
  void VisitModels(const std::function<void(const StoredModel&)>& visit);
  /// The last events that name an item, at most `most`, in order: from the checkpoint and the log after it.
  absl::StatusOr<std::vector<std::int64_t>> EventsOfItem(absl::string_view item, std::size_t most);
  /// Events that the history of an item lacks, or has although the log does not.
  void VisitHistoryDifferences(const std::function<void(const std::string& item, std::int64_t sequence)>& lacks,
                               const std::function<void(const std::string& item, std::int64_t sequence)>& has);

  // Writing the next checkpoint.

  /// Rows that are written in one transaction.
  struct Group {
    std::vector<const Item*> items = {};
    std::vector<KnownRequest> requests = {};
    std::int64_t history_through = 0;          ///< the histories of items get the events up to this one
    std::optional<LogPosition> position = {};  ///< of the checkpoint, if this is its last group
  };
  /// The last event that the histories of items include.
  std::int64_t history_through() const { return history_through_; }
  /// Writes the rows, and with the last group everything else that changed. Commits.
  absl::Status Write(const CampaignState& state, const Group& group);
  /// Writes all of the state in one transaction, as a checkpoint at this position.
  absl::Status Rewrite(const CampaignState& state, const LogPosition& position);
  /// There is no checkpoint any more; the tables are cleared by the next Write.
  void Ignore();

 private:
  explicit Checkpoint(SqliteDatabase& database) : database_(database) {}

  absl::Status Prepare();
  absl::Status Clear();
  absl::Status WriteItems(const CampaignState& state, const std::vector<const Item*>& items);
  absl::Status WriteRequests(const std::vector<KnownRequest>& requests);
  absl::Status WriteHistory(std::int64_t through);
  absl::Status WriteRounds(const RoundTable& rounds);
  absl::Status WriteFigures(const std::map<std::string, std::string>& figures);
  /// Calls `visit` for every row of a statement that was bound, until it returns Cancelled; notes other errors.
  void VisitRows(SqliteStatement& statement, const std::function<absl::Status(const SqliteStatement&)>& visit);
  void VisitQuery(const std::string& sql, const std::function<absl::Status(const SqliteStatement&)>& visit);
  void Note(const absl::Status& status);

  SqliteDatabase& database_;
  LogPosition position_;
  std::int64_t history_through_ = 0;
  std::map<std::string, std::string> figures_;  ///< as they are in the table
  bool stale_ = false;                          ///< the tables are not a checkpoint and have to be cleared
  bool has_before_ = false;                     ///< a checkpoint was being written when the tables were loaded
  absl::Status damage_;
  std::vector<std::string> damaged_rows_;

  std::optional<SqliteStatement> find_item_;
  std::optional<SqliteStatement> find_before_;
  std::optional<SqliteStatement> find_request_;
  std::optional<SqliteStatement> keep_item_;
  std::optional<SqliteStatement> write_item_;
  std::optional<SqliteStatement> write_request_;
  std::optional<SqliteStatement> write_history_;
};

/// The figures of a checkpoint of this state.
std::map<std::string, std::string> ExpectedFigures(const CampaignState& state, const LogPosition& position);

}  // namespace fulcrum::storage
