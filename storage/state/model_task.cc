#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "stages/core/status_macros.h"
#include "storage/checkpoint/checkpoint.h"
#include "storage/state/tables.h"

namespace fulcrum::storage {
namespace {

absl::Status RequireOpenTask(const ModelTask& task) {
  return task.open() ? absl::OkStatus() : absl::DataLossError("no model task is open");
}

absl::Status RequireLease(const ModelTask& task, std::int64_t lease) {
  if (lease != 0 && task.lease == lease) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("lease ", lease, " of the model task is not live"));
}

}  // namespace

absl::Status ModelTask::Grant(const ModelLeaseGranted& granted, std::int64_t sequence, const std::string& by) {
  FULCRUM_RETURN_IF_ERROR(RequireOpenTask(*this));
  if (lease != 0) return absl::DataLossError("another process has the model task");
  if (granted.round != round || granted.epoch <= epoch) {
    return absl::DataLossError("it is the lease of another model task, or its epoch does not grow");
  }
  lease = sequence;
  epoch = granted.epoch;
  process = by;
  expires_at = granted.expires_at;
  return absl::OkStatus();
}

absl::Status ModelTask::Renew(const ModelLeaseRenewed& renewed) {
  FULCRUM_RETURN_IF_ERROR(RequireLease(*this, renewed.lease));
  expires_at = renewed.expires_at;
  return absl::OkStatus();
}

absl::Status ModelTask::EndLease(const ModelLeaseEnded& ended) {
  FULCRUM_RETURN_IF_ERROR(RequireLease(*this, ended.lease));
  lease = 0;
  process.clear();
  expires_at = {};
  return absl::OkStatus();
}

absl::Status ModelTask::Answer(const PredictionsStored& stored, const std::string& by) {
  FULCRUM_RETURN_IF_ERROR(RequireOpenTask(*this));
  if (stored.round != round || stored.file.empty()) return absl::DataLossError("they are for another model task");
  lease = 0;
  process = by;
  expires_at = {};
  file = stored.file;
  checksum = stored.checksum;
  if (!stored.features_file.empty()) features = {round, rows, stored.features_file, stored.features_checksum};
  return absl::OkStatus();
}

absl::Status ModelTask::Close(const ModelTaskClosed& closed_task) {
  FULCRUM_RETURN_IF_ERROR(RequireOpenTask(*this));
  if (closed_task.round != round) return absl::DataLossError("it is another model task");
  lease = 0;
  process.clear();
  expires_at = {};
  closed = closed_task.reason.empty() ? "closed" : closed_task.reason;
  return absl::OkStatus();
}

void ModelTask::Shift(std::chrono::microseconds gap) {
  if (!open()) return;
  since += gap;
  if (lease != 0) expires_at += gap;
}

void ModelTask::Restart(Time now) {
  if (open()) since = now;
}

std::string ModelTaskText(const ModelTask& task) {
  JsonRows text;
  text.Row()
      .Add(task.id)
      .Add(task.round)
      .Add(task.rows)
      .Add(ToMicros(task.since))
      .Add(task.epoch)
      .Add(task.lease)
      .Add(ToMicros(task.expires_at))
      .Add(task.process)
      .Add(task.file)
      .Add(task.checksum)
      .Add(task.closed);
  for (const ModelFeatures& each : {task.features, task.before}) {
    text.Row().Add(each.round).Add(each.rows).Add(each.file).Add(each.checksum);
  }
  return text.Take();
}

namespace {

/// False if the row has something else.
bool ReadFeatures(std::vector<std::string>& cells, ModelFeatures& features) {
  if (cells.size() != 4 || !absl::SimpleAtoi(cells[0], &features.round) ||
      !absl::SimpleAtoi(cells[1], &features.rows)) {
    return false;
  }
  features.file = std::move(cells[2]);
  features.checksum = std::move(cells[3]);
  return true;
}

}  // namespace

absl::StatusOr<ModelTask> ParseModelTask(const std::string& text) {
  constexpr std::size_t kNumbers = 7, kCells = 11;
  FULCRUM_ASSIGN_OR_RETURN(auto rows, JsonRows::Parse(text));
  std::int64_t numbers[kNumbers] = {};
  // Checkpoints of older programs know of no features.
  bool complete = (rows.size() == 1 || rows.size() == 3) && rows[0].size() == kCells;
  for (std::size_t i = 0; complete && i < kNumbers; ++i) complete = absl::SimpleAtoi(rows[0][i], &numbers[i]);
  ModelFeatures features, before;
  if (complete && rows.size() == 3) complete = ReadFeatures(rows[1], features) && ReadFeatures(rows[2], before);
  if (!complete) return absl::DataLossError("the model task in the checkpoint is damaged");
  std::vector<std::string>& cells = rows[0];
  return ModelTask{.id = numbers[0],
                   .round = numbers[1],
                   .rows = numbers[2],
                   .since = FromMicros(numbers[3]),
                   .epoch = numbers[4],
                   .lease = numbers[5],
                   .process = std::move(cells[7]),
                   .expires_at = FromMicros(numbers[6]),
                   .file = std::move(cells[8]),
                   .checksum = std::move(cells[9]),
                   .closed = std::move(cells[10]),
                   .features = std::move(features),
                   .before = std::move(before)};
}

}  // namespace fulcrum::storage
