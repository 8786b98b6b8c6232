#include "stages/ingest/parquet_source.h"

#include <exception>
#include <new>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "arrow/io/interfaces.h"
#include "arrow/record_batch.h"
#include "arrow/type.h"
#include "parquet/arrow/reader.h"
#include "parquet/arrow/schema.h"
#include "parquet/file_reader.h"
#include "parquet/metadata.h"
#include "parquet/properties.h"
#include "stages/core/status_macros.h"
#include "stages/ingest/arrow_status.h"
#include "stages/ingest/input_stream.h"

namespace fulcrum::ingest {
namespace {

constexpr std::int64_t kRowsPerBatch = 16384;

class ParquetSource final : public TableSource {
 public:
  explicit ParquetSource(std::string path)
      : path_(std::move(path)), doing_(absl::StrCat("cannot read '", path_, "' as Parquet")) {}

  absl::Status Open(const TableRequest& request) {
    return WithoutExceptions([&] { return OpenOrThrow(request); });
  }

  const std::string& path() const override { return path_; }
  const std::vector<std::string>& all_column_names() const override { return all_names_; }
  const std::vector<std::string>& column_names() const override { return names_; }

  absl::StatusOr<std::shared_ptr<arrow::RecordBatch>> Next() override {
    std::shared_ptr<arrow::RecordBatch> batch;
    if (batches_ == nullptr) return batch;
    FULCRUM_RETURN_IF_ERROR(WithoutExceptions([&] { return ReadOrThrow(batch); }));
    return batch;
  }

  std::vector<std::string> PlacesOfRows(std::span<const std::uint64_t> rows) const override {
    std::vector<std::string> places;
    for (std::uint64_t row : rows) places.push_back(absl::StrCat("row ", row));
    return places;
  }

 private:
  template <typename Body>
  absl::Status WithoutExceptions(const Body& body) const {
    try {
      return body();
    } catch (const std::bad_alloc&) {
      return absl::ResourceExhaustedError(absl::StrCat(doing_, ": out of memory"));
    } catch (const std::exception& exception) {
      return absl::DataLossError(absl::StrCat(doing_, ": ", exception.what()));
    }
  }

  absl::Status ReadOrThrow(std::shared_ptr<arrow::RecordBatch>& batch) {
    FULCRUM_RETURN_IF_ERROR(FromArrow(batches_->ReadNext(&batch), doing_));
    return batch == nullptr ? absl::OkStatus() : FromArrow(batch->ValidateFull(), doing_);
  }

  absl::Status OpenOrThrow(const TableRequest& request) {
    FULCRUM_ASSIGN_OR_RETURN(auto file, OpenRandomAccess(path_));
    parquet::arrow::FileReaderBuilder builder;
    FULCRUM_RETURN_IF_ERROR(FromArrow(builder.Open(std::move(file)), doing_));
    parquet::ArrowReaderProperties properties(/*use_threads=*/false);
    properties.set_batch_size(kRowsPerBatch);
    builder.properties(properties);
    FULCRUM_ASSIGN_OR_RETURN(reader_, FromArrow(builder.Build(), doing_));
    std::shared_ptr<arrow::Schema> schema;
    FULCRUM_RETURN_IF_ERROR(FromArrow(reader_->GetSchema(&schema), doing_));
    all_names_ = schema->field_names();
    return ChooseColumns(request);
  }

  absl::Status ChooseColumns(const TableRequest& request) {
    const parquet::SchemaDescriptor& schema = *reader_->parquet_reader()->metadata()->schema();
    std::vector<int> chosen;
    for (const std::string& name : request.columns) {
      if (const int index = schema.ColumnIndex(name); index >= 0) chosen.push_back(index);
    }
    if (request.columns.empty()) {
      chosen.resize(static_cast<std::size_t>(schema.num_columns()));
      std::iota(chosen.begin(), chosen.end(), 0);
    }
    if (chosen.empty()) return absl::OkStatus();
    std::vector<int> row_groups(static_cast<std::size_t>(reader_->num_row_groups()));
    std::iota(row_groups.begin(), row_groups.end(), 0);
    FULCRUM_ASSIGN_OR_RETURN(batches_, FromArrow(reader_->GetRecordBatchReader(row_groups, chosen), doing_));
    names_ = batches_->schema()->field_names();
    return absl::OkStatus();
  }

  std::string path_;
  std::string doing_;
  std::vector<std::string> all_names_;
  std::vector<std::string> names_;
  std::unique_ptr<parquet::arrow::FileReader> reader_;
  std::unique_ptr<arrow::RecordBatchReader> batches_;  // reads through reader_
};

}  // namespace

absl::StatusOr<std::unique_ptr<TableSource>> OpenParquet(const std::string& path, const TableRequest& request) {
  auto source = std::make_unique<ParquetSource>(path);
  FULCRUM_RETURN_IF_ERROR(source->Open(request));
  return source;
}

}  // namespace fulcrum::ingest
