// Rows of the derived tables: how items, rounds and models are stored, and read again.
//
// Lists inside a row (votes, slots) are JSON arrays, so that SQLite's JSON functions read them too. A row of an item
// contains its slots and their live leases, and a checksum of its columns. Stateless and thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "storage/sqlite/sqlite.h"
#include "storage/state/campaign_records.h"
#include "storage/state/lease_table.h"

namespace fulcrum::storage {

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

}  // namespace fulcrum::storage
