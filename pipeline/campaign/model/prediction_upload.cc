#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
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
#include "pipeline/round/memory_budget.h"
#include "pipeline/round/round.h"
#include "stages/core/matrix.h"
#include "stages/core/status_macros.h"
#include "stages/ingest/arrow_status.h"
#include "stages/ingest/formats/input_stream.h"
#include "stages/kernel/features.h"

namespace fulcrum::pipeline {
namespace {

// How far the probabilities of a row may be from a sum of 1.
constexpr double kSumTolerance = 1e-3;
// What the batches of one message may unpack to.
constexpr std::int64_t kMostArrowBytes = std::int64_t{64} << 20;
// A repeated request is read only to compare it with the first.
constexpr std::int64_t kMostRepeatedRows = std::int64_t{1} << 32;
// Squares of single features can be summed over all rows.
constexpr double kMostLength = 1e30;
constexpr char kIdColumn[] = "id";
constexpr char kFeaturesColumn[] = "features";

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
  if (stored_) return;
  if (writer_) writer_->Discard();
  if (features_) features_->Discard();
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

absl::Status PredictionUpload::ReadArrow(const std::string& bytes, const std::function<std::int64_t()>& first,
                                         const std::function<absl::Status(const arrow::RecordBatch&)>& use) const {
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
        const std::int64_t row = first() + i;
        if (row >= static_cast<std::int64_t>(pool->rows())) break;
        const std::string expected = pool->ids().TextOf(static_cast<RowIndex>(row));
        if (ids.GetView(i) == expected) continue;
        return absl::InvalidArgumentError(absl::StrCat("row ", row, ": its id is '", std::string(ids.GetView(i)),
                                                       "', and the pool has '", expected,
                                                       "' there; return rows in the order of the pool"));
      }
    }
    FULCRUM_RETURN_IF_ERROR(use(*batch));
  }
}

absl::Status PredictionUpload::AddArrow(const std::string& bytes) {
  const auto add = [&](const arrow::RecordBatch& batch) -> absl::Status {
    FULCRUM_ASSIGN_OR_RETURN(const std::vector<int> columns, MatchClasses(*batch.schema(), plan_->classes));
    std::vector<float> rows(static_cast<std::size_t>(batch.num_rows()) * columns.size());
    for (std::size_t c = 0; c < columns.size(); ++c) {
      if (CopyColumn(*batch.column(columns[c]), columns.size(), rows.data() + c)) continue;
      return absl::InvalidArgumentError(absl::StrCat("the column '", plan_->classes[c], "' is of the type ",
                                                     batch.column(columns[c])->type()->ToString(),
                                                     "; it must be float or double"));
    }
    return Add(rows);
  };
  return ReadArrow(
      bytes, [this] { return writer_->rows(); }, add);
}

absl::Status PredictionUpload::AddPlainFeatures(const v1::FeatureBlock& block) {
  const std::size_t rows = static_cast<std::size_t>(std::max<std::int64_t>(block.rows(), 0));
  const std::size_t numbers = block.values().size() / sizeof(float);
  if (rows == 0 || numbers == 0 || block.values().size() % (rows * sizeof(float)) != 0) {
    return absl::InvalidArgumentError(absl::StrCat("a part of the features has ", block.values().size(), " bytes for ",
                                                   block.rows(),
                                                   " rows; it must have one 32-bit float for each row "
                                                   "and feature"));
  }
  std::vector<float> values(numbers);
  std::memcpy(values.data(), block.values().data(), block.values().size());
  return AddFeatures(values, numbers / rows);
}

absl::Status PredictionUpload::AddArrowFeatures(const std::string& bytes) {
  const auto add = [&](const arrow::RecordBatch& batch) -> absl::Status {
    const std::shared_ptr<arrow::Array> column = batch.GetColumnByName(kFeaturesColumn);
    const auto wrong = [&](const std::string& what) {
      return absl::InvalidArgumentError(absl::StrCat("the column '", kFeaturesColumn, "' ", what,
                                                     "; it must have lists of float or double, all of one length"));
    };
    if (column == nullptr) return wrong("is missing, or there is more than one");
    if (column->null_count() > 0) return wrong("has nulls");
    std::shared_ptr<arrow::Array> values;
    if (column->type_id() == arrow::Type::FIXED_SIZE_LIST) {
      const auto flat = static_cast<const arrow::FixedSizeListArray&>(*column).Flatten();
      if (flat.ok()) values = *flat;
    } else if (column->type_id() == arrow::Type::LIST) {
      const auto flat = static_cast<const arrow::ListArray&>(*column).Flatten();
      if (flat.ok()) values = *flat;
      const auto& lists = static_cast<const arrow::ListArray&>(*column);
      for (std::int64_t i = 1; i < lists.length(); ++i) {
        if (lists.value_length(i) != lists.value_length(0)) return wrong("has lists of several lengths");
      }
    }
    if (values == nullptr) return wrong(absl::StrCat("is of the type ", column->type()->ToString()));
    if (batch.num_rows() == 0) return absl::OkStatus();
    std::vector<float> rows(static_cast<std::size_t>(values->length()));
    if (!CopyColumn(*values, 1, rows.data())) return wrong(absl::StrCat("is of the type ", column->type()->ToString()));
    return AddFeatures(rows, rows.size() / static_cast<std::size_t>(batch.num_rows()));
  };
  return ReadArrow(
      bytes, [this] { return features_ ? features_->rows() : 0; }, add);
}

absl::Status PredictionUpload::BeginFeatures(std::size_t width) {
  if (width == 0) return absl::InvalidArgumentError("rows have no features; return at least one, or none at all");
  constexpr auto kKind = storage::ModelFileKind::kFeatures;
  if (!task_) {
    features_.emplace(width, kKind);
    return absl::OkStatus();
  }
  // A round holds them as they are and normalised.
  const double needed = 2.0 * sizeof(double) * static_cast<double>(width) * static_cast<double>(task_->rows);
  const std::size_t usable = plan_->round.memory_bytes > 0 ? plan_->round.memory_bytes : UsableMemoryBytes();
  if (needed > static_cast<double>(usable)) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "%d features of %d rows take %.0f MiB in a round, which may use %.0f MiB; return fewer features, "
        "or raise selection.memory_mib",
        width, task_->rows, needed / (1 << 20), static_cast<double>(usable) / (1 << 20)));
  }
  FULCRUM_ASSIGN_OR_RETURN(auto writer, storage::PredictionFileWriter::Create(campaign_->store().folder(), task_->round,
                                                                              lease_.lease, width, kKind));
  features_.emplace(std::move(writer));
  return absl::OkStatus();
}

absl::Status PredictionUpload::AddFeatures(std::span<const float> rows, std::size_t width) {
  if (!features_) FULCRUM_RETURN_IF_ERROR(BeginFeatures(width));
  const std::int64_t first = features_->rows();
  if (width != features_->columns()) {
    return absl::InvalidArgumentError(absl::StrCat("row ", first, " has ", width, " features, and the rows before it ",
                                                   features_->columns(), "; all rows must have as many"));
  }
  const std::int64_t most = task_ ? task_->rows : kMostRepeatedRows;
  if (first + static_cast<std::int64_t>(rows.size() / width) > most) {
    return absl::InvalidArgumentError(absl::StrCat("there are features for more than ", most,
                                                   " rows, which the task has; return those of each row once"));
  }
  for (std::size_t i = 0; i < rows.size(); i += width) {
    const auto row = first + static_cast<std::int64_t>(i / width);
    double length = 0;
    for (std::size_t j = 0; j < width; ++j) {
      const double value = rows[i + j];
      length += value * value;
      if (std::isfinite(value)) continue;
      return absl::InvalidArgumentError(
          absl::StrFormat("row %d: feature %d (counted from 0) is %g; features must be finite numbers", row, j, value));
    }
    if (length <= largest_length_) continue;
    largest_length_ = length;
    longest_row_ = row;
  }
  return features_->Add(rows);
}

absl::Status PredictionUpload::FinishFeatures() {
  if (!features_) return absl::OkStatus();
  if (task_ && features_->rows() != task_->rows) {
    return absl::InvalidArgumentError(absl::StrCat("there are features for ", features_->rows(),
                                                   " rows, and the task has ", task_->rows,
                                                   "; return those of every row, or none"));
  }
  // Later rounds could compute nothing from them.
  Matrix<double> longest(1, 1);
  longest(0, 0) = std::sqrt(largest_length_);
  const RowIndex row[] = {0};
  const bool scaled = plan_->round.tune || !plan_->normalize.empty();
  const absl::Status usable = CheckKernels(plan_->round, kernel::DenseFeatures(std::move(longest)), row);
  if (largest_length_ > kMostLength || (!scaled && !usable.ok())) {
    return absl::InvalidArgumentError(
        absl::StrFormat("row %d: its features have the squared length %g, which is too large for the kernels of the "
                        "campaign; return smaller ones, such as rows of length 1",
                        longest_row_, largest_length_));
  }
  return features_->Finish();
}

absl::StatusOr<storage::StorePredictionsAnswer> PredictionUpload::Finish() {
  if (task_ && writer_->rows() != task_->rows) {
    return absl::InvalidArgumentError(absl::StrCat("there are predictions for ", writer_->rows(),
                                                   " rows, and the task has ", task_->rows,
                                                   "; return one row of probabilities for each of them"));
  }
  FULCRUM_RETURN_IF_ERROR(FinishFeatures());
  FULCRUM_RETURN_IF_ERROR(writer_->Finish());
  // Whatever the store says after a disk error, the log may name the files.
  stored_ = true;
  const auto answer =
      campaign_->store().Run(storage::StorePredictions, {.lease = lease_,
                                                         .file = writer_->name(),
                                                         .checksum = writer_->checksum(),
                                                         .features_file = features_ ? features_->name() : "",
                                                         .features_checksum = features_ ? features_->checksum() : ""});
  stored_ =
      answer.ok() ? !answer->repeated : !(absl::IsAborted(answer.status()) || absl::IsAlreadyExists(answer.status()));
  return answer;
}

}  // namespace fulcrum::pipeline
