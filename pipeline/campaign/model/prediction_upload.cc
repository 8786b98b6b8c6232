#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "arrow/array.h"
#include "arrow/buffer.h"
#include "arrow/io/memory.h"
#include "arrow/ipc/reader.h"
#include "arrow/record_batch.h"
#include "arrow/type.h"
#include "pipeline/campaign/campaign.h"
#include "pipeline/campaign/campaign_plan.h"
#include "pipeline/campaign/model/model_tasks.h"
#include "stages/core/status_macros.h"
#include "stages/ingest/arrow_status.h"
#include "stages/ingest/formats/input_stream.h"

namespace fulcrum::pipeline {
namespace {

// How far the probabilities of a row may be from a sum of 1.
constexpr double kSumTolerance = 1e-3;
// What the batches of one message may unpack to.
constexpr std::int64_t kMostArrowBytes = std::int64_t{64} << 20;
// A repeated request is read only to compare it with the first.
constexpr std::int64_t kMostRepeatedRows = std::int64_t{1} << 32;
constexpr char kIdColumn[] = "id";

/// The values of a column of probabilities; false if it is not one.
bool CopyColumn(const arrow::Array& column, std::size_t stride, float* to) {
  const auto copy = [&](const auto& numbers) {
    for (std::int64_t i = 0; i < numbers.length(); ++i) {
      to[static_cast<std::size_t>(i) * stride] =
          numbers.IsNull(i) ? std::nanf("") : static_cast<float>(numbers.Value(i));
    }
    return true;
  };
  if (column.type_id() == arrow::Type::FLOAT) return copy(static_cast<const arrow::FloatArray&>(column));
  if (column.type_id() == arrow::Type::DOUBLE) return copy(static_cast<const arrow::DoubleArray&>(column));
  return false;
}

/// The columns of the classes, in their order.
absl::StatusOr<std::vector<int>> MatchClasses(const arrow::Schema& schema, const std::vector<std::string>& classes) {
  std::vector<int> columns;
  for (const std::string& name : classes) {
    const int column = schema.GetFieldIndex(name);
    if (column < 0) {
      return absl::InvalidArgumentError(absl::StrCat("the predictions have no column '", name,
                                                     "', or more than one; there must be one for each of the classes ",
                                                     absl::StrJoin(classes, ", ")));
    }
    columns.push_back(column);
  }
  for (const auto& field : schema.fields()) {
    const bool known = field->name() == kIdColumn || std::ranges::find(classes, field->name()) != classes.end();
    if (!known) {
      return absl::InvalidArgumentError(
          absl::StrCat("the column '", field->name(), "' is not one of the classes ", absl::StrJoin(classes, ", ")));
    }
  }
  return columns;
}

}  // namespace

PredictionUpload::PredictionUpload(std::shared_ptr<Campaign> campaign, storage::ModelLeaseRequest lease)
    : campaign_(std::move(campaign)), plan_(campaign_->plan()), lease_(std::move(lease)) {}

absl::StatusOr<std::unique_ptr<PredictionUpload>> PredictionUpload::Begin(std::shared_ptr<Campaign> campaign,
                                                                          storage::ModelLeaseRequest lease) {
  std::unique_ptr<PredictionUpload> upload(new PredictionUpload(std::move(campaign), std::move(lease)));
  storage::CampaignStore& store = upload->campaign_->store();
  FULCRUM_ASSIGN_OR_RETURN(upload->task_, store.Run(storage::FindModelTask, upload->lease_));
  const std::size_t classes = upload->plan_->classes.size();
  if (!upload->task_) {
    upload->writer_.emplace(classes);
    return upload;
  }
  FULCRUM_ASSIGN_OR_RETURN(auto writer, storage::PredictionFileWriter::Create(store.folder(), upload->task_->round,
                                                                              upload->lease_.lease, classes));
  upload->writer_.emplace(std::move(writer));
  return upload;
}

PredictionUpload::~PredictionUpload() {
  if (!stored_ && writer_) writer_->Discard();
}

absl::Status PredictionUpload::Add(std::span<const float> rows) {
  const std::size_t classes = plan_->classes.size();
  const std::int64_t first = writer_->rows();
  const std::int64_t most = task_ ? task_->rows : kMostRepeatedRows;
  if (first + static_cast<std::int64_t>(rows.size() / classes) > most) {
    return absl::InvalidArgumentError(absl::StrCat("there are predictions for more than ", most,
                                                   " rows, which the task has; return one row of probabilities for "
                                                   "each of them"));
  }
  for (std::size_t i = 0; i < rows.size(); i += classes) {
    const auto row = first + static_cast<std::int64_t>(i / classes);
    double sum = 0;
    for (std::size_t c = 0; c < classes; ++c) {
      const float p = rows[i + c];
      sum += p;
      if (p >= 0 && p <= 1 + kSumTolerance) continue;
      return absl::InvalidArgumentError(absl::StrFormat(
          "row %d: the probability of class '%s' is %g; it must be from 0 to 1", row, plan_->classes[c], p));
    }
    if (std::abs(sum - 1) > kSumTolerance) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "row %d: the probabilities of the %d classes sum to %g; they must sum to 1", row, classes, sum));
    }
  }
  return writer_->Add(rows);
}

absl::Status PredictionUpload::AddPlain(const std::string& bytes) {
  const std::size_t row_bytes = plan_->classes.size() * sizeof(float);
  if (bytes.size() % row_bytes != 0) {
    return absl::InvalidArgumentError(absl::StrCat("a part of the predictions has ", bytes.size(),
                                                   " bytes, which is not a multiple of ", row_bytes, ": one 32-bit ",
                                                   "float for each of the ", plan_->classes.size(), " classes (",
                                                   absl::StrJoin(plan_->classes, ", "), ")"));
  }
  std::vector<float> rows(bytes.size() / sizeof(float));
  if (!rows.empty()) std::memcpy(rows.data(), bytes.data(), bytes.size());
  return Add(rows);
}

absl::Status PredictionUpload::AddArrow(const std::string& bytes) {
  constexpr char kReading[] = "reading the predictions";
  arrow::ipc::IpcReadOptions options;
  options.memory_pool = ingest::CappedPool(kMostArrowBytes);
  options.use_threads = false;
  options.ensure_alignment = arrow::ipc::Alignment::kDataTypeSpecificAlignment;
  const auto refused = [](const absl::Status& status) { return absl::InvalidArgumentError(status.message()); };
  auto opened =
      ingest::FromArrow(arrow::ipc::RecordBatchStreamReader::Open(
                            std::make_shared<arrow::io::BufferReader>(std::make_shared<arrow::Buffer>(bytes)), options),
                        kReading);
  if (!opened.ok()) return refused(opened.status());
  const std::shared_ptr<arrow::ipc::RecordBatchStreamReader> reader = *std::move(opened);
  FULCRUM_ASSIGN_OR_RETURN(const std::vector<int> columns, MatchClasses(*reader->schema(), plan_->classes));
  const int id_column = reader->schema()->GetFieldIndex(kIdColumn);
  while (true) {
    std::shared_ptr<arrow::RecordBatch> batch;
    if (const auto status = ingest::FromArrow(reader->ReadNext(&batch), kReading); !status.ok()) return refused(status);
    if (batch == nullptr) return absl::OkStatus();
    if (const auto status = ingest::FromArrow(batch->ValidateFull(), kReading); !status.ok()) return refused(status);
    if (id_column >= 0 && batch->column(id_column)->type_id() == arrow::Type::STRING) {
      const auto& ids = static_cast<const arrow::StringArray&>(*batch->column(id_column));
      const std::shared_ptr<const CampaignPool> pool = campaign_->pool();
      for (std::int64_t i = 0; i < ids.length(); ++i) {
        const std::int64_t row = writer_->rows() + i;
        if (row >= static_cast<std::int64_t>(pool->rows())) break;
        const std::string expected = pool->ids().TextOf(static_cast<RowIndex>(row));
        if (ids.GetView(i) == expected) continue;
        return absl::InvalidArgumentError(absl::StrCat("row ", row, ": its id is '", std::string(ids.GetView(i)),
                                                       "', and the pool has '", expected,
                                                       "' there; return rows in the order of the pool"));
      }
    }
    std::vector<float> rows(static_cast<std::size_t>(batch->num_rows()) * columns.size());
    for (std::size_t c = 0; c < columns.size(); ++c) {
      if (CopyColumn(*batch->column(columns[c]), columns.size(), rows.data() + c)) continue;
      return absl::InvalidArgumentError(absl::StrCat("the column '", plan_->classes[c], "' is of the type ",
                                                     batch->column(columns[c])->type()->ToString(),
                                                     "; it must be float or double"));
    }
    FULCRUM_RETURN_IF_ERROR(Add(rows));
  }
}

absl::StatusOr<storage::StorePredictionsAnswer> PredictionUpload::Finish() {
  if (task_ && writer_->rows() != task_->rows) {
    return absl::InvalidArgumentError(absl::StrCat("there are predictions for ", writer_->rows(),
                                                   " rows, and the task has ", task_->rows,
                                                   "; return one row of probabilities for each of them"));
  }
  FULCRUM_RETURN_IF_ERROR(writer_->Finish());
  // Whatever the store says after a disk error, the log may name the file.
  stored_ = true;
  const auto answer = campaign_->store().Run(
      storage::StorePredictions, {.lease = lease_, .file = writer_->name(), .checksum = writer_->checksum()});
  stored_ =
      answer.ok() ? !answer->repeated : !(absl::IsAborted(answer.status()) || absl::IsAlreadyExists(answer.status()));
  return answer;
}

}  // namespace fulcrum::pipeline
