#include "pipeline/campaign/stream/waiting_rows.h"

#include <algorithm>

#include "pipeline/campaign/stream/offered_rows_file.h"
#include "stages/core/status_macros.h"

namespace fulcrum::pipeline {
namespace {

std::size_t BytesOf(const OfferedRow& row) {
  return sizeof(OfferedRow) + 2 * row.id.size() + row.payload.size() + row.features.size() * sizeof(float);
}

}  // namespace

void WaitingRows::Add(const OfferedRow& row, std::int64_t sequence) {
  const std::scoped_lock lock(mutex_);
  if (!rows_.emplace(row.id, Waiting{row, sequence, ++last_number_}).second) return;
  bytes_ += BytesOf(row);
  if (sequence == kNotCommitted) uncommitted_.push_back(row.id);
}

void WaitingRows::Commit(std::int64_t sequence) {
  const std::scoped_lock lock(mutex_);
  for (const std::string& id : uncommitted_) rows_.at(id).sequence = sequence;
  uncommitted_.clear();
  committed_ = sequence;
}

void WaitingRows::ForgetUncommitted() {
  const std::scoped_lock lock(mutex_);
  for (const std::string& id : uncommitted_) {
    const auto found = rows_.find(id);
    bytes_ -= BytesOf(found->second.row);
    rows_.erase(found);
  }
  uncommitted_.clear();
}

bool WaitingRows::Has(absl::string_view item) const {
  const std::scoped_lock lock(mutex_);
  return rows_.contains(item);
}

std::optional<std::string> WaitingRows::PayloadOf(absl::string_view item) const {
  const std::scoped_lock lock(mutex_);
  const auto found = rows_.find(item);
  if (found == rows_.end()) return std::nullopt;
  return found->second.row.payload;
}

std::optional<std::size_t> WaitingRows::PayloadBytes(absl::string_view item) const {
  const std::scoped_lock lock(mutex_);
  const auto found = rows_.find(item);
  if (found == rows_.end()) return std::nullopt;
  return found->second.row.payload.size();
}

std::size_t WaitingRows::size() const {
  const std::scoped_lock lock(mutex_);
  return rows_.size();
}

std::size_t WaitingRows::bytes() const {
  const std::scoped_lock lock(mutex_);
  return bytes_;
}

absl::Status WaitingRows::Store(const GrowingPool& pool, PoolAppender& appender) {
  const std::scoped_lock one_at_a_time(storing_);
  std::vector<const Waiting*> waiting;
  std::int64_t through = 0;
  {
    const std::scoped_lock lock(mutex_);
    through = committed_;
    for (const auto& [id, row] : rows_) {
      if (row.sequence <= through) waiting.push_back(&row);
    }
  }
  if (waiting.empty()) return absl::OkStatus();
  std::ranges::sort(waiting, {}, &Waiting::number);
  std::vector<const OfferedRow*> rows;
  for (const Waiting* const entry : waiting) rows.push_back(&entry->row);
  FULCRUM_ASSIGN_OR_RETURN(const auto upload, appender.BeginUpload());
  FULCRUM_ASSIGN_OR_RETURN(const OfferedTable table, MakeOfferedTable(*pool.now(), rows));
  FULCRUM_RETURN_IF_ERROR(upload->Add(table.bytes));
  FULCRUM_RETURN_IF_ERROR(upload->Finish());
  FULCRUM_RETURN_IF_ERROR(appender.StoreOffered(upload->file(), table.columns, through));
  // The pool has them now; nobody finds a row in neither place.
  const std::scoped_lock lock(mutex_);
  for (const Waiting* const entry : waiting) {
    bytes_ -= BytesOf(entry->row);
    rows_.erase(rows_.find(entry->row.id));
  }
  return absl::OkStatus();
}

}  // namespace fulcrum::pipeline
