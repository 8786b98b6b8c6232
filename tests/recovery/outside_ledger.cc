#include "tests/recovery/outside_ledger.h"

#include <cstring>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "storage/log/event_log.h"
#include "storage/sqlite/sqlite.h"

namespace fulcrum::testing {
namespace {

using storage::EventKind;

/// A row of the log, read with separate SQL.
struct Row {
  std::int64_t sequence, kind, at, slot, lease, epoch, number;
  std::string annotator, id, item, value;
};

std::vector<Row> ReadLog(const std::string& folder, std::vector<std::string>& problems) {
  std::vector<Row> rows;
  auto database = storage::SqliteDatabase::Open(folder + "/campaign.db", {.read_only = true});
  if (!database.ok()) {
    problems.push_back(database.status().ToString());
    return rows;
  }
  auto select = database->Prepare(
      "SELECT sequence, kind, at_us, slot, lease, epoch, number, annotator, request_id, item, value FROM event "
      "ORDER BY sequence");
  if (!select.ok()) return rows;  // killed before the first table was created
  for (auto more = select->Step(); more.ok() && *more; more = select->Step()) {
    const auto number = [&](int column) { return select->ColumnInt64(column); };
    const auto text = [&](int column) { return std::string(select->ColumnText(column)); };
    rows.push_back({number(0), number(1), number(2), number(3), number(4), number(5), number(6), text(7), text(8),
                    text(9), text(10)});
  }
  return rows;
}

/// Tracks leases with plain maps.
class LeaseBook {
 public:
  explicit LeaseBook(std::vector<std::string>& problems) : problems_(problems) {}

  void Add(const Row& row) {
    const auto kind = static_cast<EventKind>(row.kind);
    if (kind == EventKind::kLeaseGranted) Grant(row);
    if (kind == EventKind::kLeaseRenewed) promised_[row.lease] = row.number;
    if (kind == EventKind::kStoreOpened) {
      // Leases could not be renewed while the store was closed, so they are extended by that time.
      for (auto& [lease, until] : promised_) until += row.at - last_at_;
    }
    last_at_ = row.at;
    if (kind == EventKind::kLeaseExpired && row.at < promised_[row.lease]) {
      problems_.push_back(absl::StrCat("event ", row.sequence, " ends lease ", row.lease, " before its time"));
    }
    const bool ends = kind == EventKind::kLeaseReleased || kind == EventKind::kLeaseExpired ||
                      kind == EventKind::kTaskSkipped || kind == EventKind::kLabelSubmitted;
    const auto slot = slot_of_lease_.find(row.lease);
    if (ends && slot != slot_of_lease_.end() && live_[slot->second] == row.lease) live_[slot->second] = 0;
  }

 private:
  using SlotName = std::pair<std::string, std::int64_t>;

  void Grant(const Row& row) {
    const SlotName slot(row.item, row.slot);
    if (live_[slot] != 0) {
      problems_.push_back(absl::StrCat("event ", row.sequence, " leases a slot that lease ", live_[slot], " has"));
    }
    if (row.epoch <= epoch_[slot]) problems_.push_back(absl::StrCat("event ", row.sequence, ": the epoch went back"));
    live_[slot] = row.sequence;
    epoch_[slot] = row.epoch;
    slot_of_lease_[row.sequence] = slot;
    promised_[row.sequence] = row.number;
  }

  std::vector<std::string>& problems_;
  std::map<SlotName, std::int64_t> live_, epoch_;
  std::map<std::int64_t, SlotName> slot_of_lease_;
  std::map<std::int64_t, std::int64_t> promised_;
  std::int64_t last_at_ = 0;
};

std::string KeyOf(const std::string& annotator, const std::string& id) {
  return annotator + "/" + id;
}

void CheckRows(const std::vector<Row>& rows, std::vector<std::string>& problems) {
  LeaseBook leases(problems);
  std::set<std::string> requests, answered_items;
  std::string last_request;
  std::int64_t expected = 1;
  for (const Row& row : rows) {
    if (row.sequence != expected++) problems.push_back(absl::StrCat("event ", row.sequence, " follows a gap"));
    leases.Add(row);
    const auto kind = static_cast<EventKind>(row.kind);
    if (kind == EventKind::kLabelSubmitted && !answered_items.insert(KeyOf(row.annotator, row.item)).second) {
      problems.push_back(absl::StrCat("event ", row.sequence, " answers an item a second time"));
    }
    const std::string request = row.id.empty() ? "" : KeyOf(row.annotator, row.id);
    // Only an acquire and an import cause several events, and they are consecutive.
    const bool several = kind == EventKind::kLeaseGranted || kind == EventKind::kLabelImported;
    const bool continues = several && request == last_request;
    if (!request.empty() && !continues && !requests.insert(request).second) {
      problems.push_back(absl::StrCat("event ", row.sequence, ": request ", request, " took effect twice"));
    }
    last_request = request;
  }
}

void CheckAnswer(const Entry& answer, const std::vector<Row>& rows, std::vector<std::string>& problems) {
  const std::string what = absl::StrCat("the answered request ", KeyOf(answer.annotator, answer.id));
  if (answer.sequence < 1 || answer.sequence > static_cast<std::int64_t>(rows.size())) {
    problems.push_back(absl::StrCat(what, " is lost: there is no event ", answer.sequence));
    return;
  }
  const Row& row = rows[static_cast<std::size_t>(answer.sequence - 1)];
  const bool same = row.annotator == answer.annotator && row.id == answer.id &&
                    (answer.request != Request::kSubmit || (row.item == answer.item && row.value == answer.value));
  if (!same) problems.push_back(absl::StrCat(what, " is not what event ", answer.sequence, " says"));
}

}  // namespace

void Put(char* field, std::size_t size, const std::string& text) {
  std::strncpy(field, text.c_str(), size - 1);
}

void OutsideLedger::Add(const Entry& entry) {
  const std::string key = KeyOf(entry.annotator, entry.id);
  if (entry.kind == Entry::Kind::kAsked) unanswered_[key] = entry;
  if (entry.kind == Entry::Kind::kAnswered || entry.kind == Entry::Kind::kRefused) unanswered_.erase(key);
  if (entry.kind == Entry::Kind::kAnswered) answers_.push_back(entry);
  if (entry.kind == Entry::Kind::kBroken) broken_.push_back(absl::StrCat(key, ": ", entry.value));
}

std::vector<std::string> OutsideLedger::Check(const std::string& folder) const {
  std::vector<std::string> problems = broken_;
  const std::vector<Row> rows = ReadLog(folder, problems);
  CheckRows(rows, problems);
  for (const Entry& answer : answers_) CheckAnswer(answer, rows, problems);
  return problems;
}

}  // namespace fulcrum::testing
