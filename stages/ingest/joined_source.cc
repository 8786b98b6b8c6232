#include "stages/ingest/joined_source.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "arrow/array.h"
#include "arrow/array/util.h"
#include "arrow/record_batch.h"
#include "arrow/scalar.h"
#include "arrow/type.h"
#include "arrow/util/key_value_metadata.h"
#include "stages/core/status_macros.h"
#include "stages/ingest/arrow_status.h"
#include "stages/ingest/input_stream.h"
#include "stages/ingest/reader_registry.h"

namespace fulcrum::ingest {
namespace {

constexpr char kPartitionMark[] = "fulcrum.partition";

std::shared_ptr<arrow::Field> PartitionField(const std::string& name) {
  return arrow::field(name, arrow::binary(), /*nullable=*/true, arrow::key_value_metadata({kPartitionMark}, {"yes"}));
}

class JoinedSource final : public TableSource {
 public:
  JoinedSource(std::string title, std::vector<SourceFile> files, TableRequest request)
      : title_(std::move(title)), files_(std::move(files)), request_(std::move(request)) {}

  absl::Status Open() {
    FULCRUM_RETURN_IF_ERROR(OpenCurrent());
    all_names_ = current_->all_column_names();
    arrow::FieldVector fields = current_->schema()->fields();
    for (std::size_t i = 0; i < files_[0].partitions.size(); ++i) {
      const std::string& name = files_[0].partitions[i].first;
      if (std::find(all_names_.begin(), all_names_.end(), name) != all_names_.end()) {
        return absl::DataLossError(absl::StrCat(title_, ": the column '", name,
                                                "' is in the files and in their folders' names; rename one of them"));
      }
      all_names_.push_back(name);
      const bool wanted = request_.columns.empty() ||
                          std::find(request_.columns.begin(), request_.columns.end(), name) != request_.columns.end();
      if (!wanted) continue;
      partitions_.push_back(i);
      fields.push_back(PartitionField(name));
    }
    schema_ = arrow::schema(std::move(fields));
    names_ = schema_->field_names();
    return absl::OkStatus();
  }

  const std::string& path() const override { return title_; }
  const std::vector<std::string>& all_column_names() const override { return all_names_; }
  const std::vector<std::string>& column_names() const override { return names_; }
  std::shared_ptr<arrow::Schema> schema() const override { return schema_; }
  const std::string& current_file() const override { return files_[position_].path; }

  absl::StatusOr<std::shared_ptr<arrow::RecordBatch>> Next() override {
    for (;;) {
      FULCRUM_ASSIGN_OR_RETURN(const auto batch, current_->Next());
      if (batch != nullptr) {
        rows_ += static_cast<std::uint64_t>(batch->num_rows());
        return WithPartitions(*batch);
      }
      FULCRUM_RETURN_IF_ERROR(CheckUnchanged());
      if (position_ + 1 == files_.size()) return std::shared_ptr<arrow::RecordBatch>();
      ++position_;
      FULCRUM_RETURN_IF_ERROR(OpenCurrent());
      FULCRUM_RETURN_IF_ERROR(CheckSameColumns());
    }
  }

  std::vector<std::string> PlacesOfRows(std::span<const std::uint64_t> rows) const override {
    std::vector<std::string> places;
    for (std::uint64_t row : rows) places.push_back(PlaceOfRow(row));
    return places;
  }

 private:
  absl::Status OpenCurrent() {
    first_rows_.push_back(rows_);
    FULCRUM_ASSIGN_OR_RETURN(stamp_, StampOf(files_[position_].path));
    FULCRUM_ASSIGN_OR_RETURN(current_, OpenTable(files_[position_].path, request_));
    return absl::OkStatus();
  }

  absl::Status CheckUnchanged() const {
    FULCRUM_ASSIGN_OR_RETURN(const FileStamp now, StampOf(files_[position_].path));
    if (now == stamp_) return absl::OkStatus();
    return absl::DataLossError(absl::StrCat("'", files_[position_].path,
                                            "' changed while it was being read; run again when nobody writes to it"));
  }

  absl::Status CheckSameColumns() const {
    const std::shared_ptr<arrow::Schema> here = current_->schema();
    const int expected = schema_->num_fields() - static_cast<int>(partitions_.size());
    bool same = here->num_fields() == expected;
    for (int i = 0; same && i < expected; ++i) {
      same = here->field(i)->name() == schema_->field(i)->name() &&
             here->field(i)->type()->Equals(*schema_->field(i)->type());
    }
    if (same) return absl::OkStatus();
    return absl::DataLossError(absl::StrCat("'", files_[position_].path, "' has other columns, or columns of other ",
                                            "types, than '", files_[0].path,
                                            "'; files that are read together must have the same ones in the same "
                                            "order"));
  }

  absl::StatusOr<std::shared_ptr<arrow::RecordBatch>> WithPartitions(const arrow::RecordBatch& batch) const {
    arrow::ArrayVector columns = batch.columns();
    for (std::size_t i : partitions_) {
      const arrow::BinaryScalar value(files_[position_].partitions[i].second);
      FULCRUM_ASSIGN_OR_RETURN(columns.emplace_back(), FromArrow(arrow::MakeArrayFromScalar(value, batch.num_rows()),
                                                                 absl::StrCat("cannot read '", title_, "'")));
    }
    return arrow::RecordBatch::Make(schema_, batch.num_rows(), std::move(columns));
  }

  std::string PlaceOfRow(std::uint64_t row) const {
    const auto after = std::upper_bound(first_rows_.begin(), first_rows_.end(), row);
    const auto file = static_cast<std::size_t>(after - first_rows_.begin()) - 1;
    const std::uint64_t row_in_file[] = {row - first_rows_[file]};
    if (files_.size() == 1) return current_->PlacesOfRows(row_in_file)[0];
    if (file == position_) return absl::StrCat(files_[file].path, ", ", current_->PlacesOfRows(row_in_file)[0]);
    const auto source = OpenTable(files_[file].path, request_);
    return absl::StrCat(files_[file].path, ", ",
                        source.ok() ? (*source)->PlacesOfRows(row_in_file)[0] : absl::StrCat("row ", row_in_file[0]));
  }

  std::string title_;
  std::vector<SourceFile> files_;
  TableRequest request_;
  std::vector<std::string> all_names_;
  std::vector<std::string> names_;
  std::shared_ptr<arrow::Schema> schema_;
  std::vector<std::size_t> partitions_;  // those that are wanted
  std::size_t position_ = 0;
  FileStamp stamp_;  // of the file that is being read, before that began
  std::unique_ptr<TableSource> current_;
  std::uint64_t rows_ = 0;
  std::vector<std::uint64_t> first_rows_;  // by file that has been opened
};

}  // namespace

bool IsPartitionField(const arrow::Field& field) {
  return field.metadata() != nullptr && field.metadata()->Contains(kPartitionMark);
}

absl::StatusOr<std::unique_ptr<TableSource>> OpenJoined(std::string title, std::vector<SourceFile> files,
                                                        const TableRequest& request) {
  auto source = std::make_unique<JoinedSource>(std::move(title), std::move(files), request);
  FULCRUM_RETURN_IF_ERROR(source->Open());
  return source;
}

}  // namespace fulcrum::ingest
