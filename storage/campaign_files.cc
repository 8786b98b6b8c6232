#include "storage/campaign_files.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <random>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "arrow/array.h"
#include "arrow/builder.h"
#include "arrow/table.h"
#include "stages/core/files.h"
#include "stages/core/status_macros.h"
#include "stages/ingest/arrow_status.h"
#include "stages/ingest/columns/column_values.h"
#include "stages/ingest/formats/table_writer.h"
#include "storage/campaign_folder.h"

namespace fulcrum::storage {
namespace {

template <typename Builder, typename Values>
arrow::Result<std::shared_ptr<arrow::Array>> ToArray(const Values& values) {
  Builder builder;
  ARROW_RETURN_NOT_OK(builder.Reserve(static_cast<std::int64_t>(values.size())));
  for (const auto& value : values) ARROW_RETURN_NOT_OK(builder.Append(value));
  return builder.Finish();
}

arrow::Result<std::shared_ptr<arrow::Table>> ToTable(const RoundScores& scores) {
  ARROW_ASSIGN_OR_RAISE(const auto items, ToArray<arrow::StringBuilder>(scores.items));
  ARROW_ASSIGN_OR_RAISE(const auto predicted, ToArray<arrow::StringBuilder>(scores.predicted));
  ARROW_ASSIGN_OR_RAISE(const auto labeled, ToArray<arrow::BooleanBuilder>(scores.labeled));
  ARROW_ASSIGN_OR_RAISE(const auto leverage, ToArray<arrow::DoubleBuilder>(scores.leverage));
  return arrow::Table::Make(
      arrow::schema({arrow::field("id", arrow::utf8()), arrow::field("class", arrow::utf8()),
                     arrow::field("labeled", arrow::boolean()), arrow::field("leverage", arrow::float64())}),
      {items, predicted, labeled, leverage});
}

arrow::Result<std::shared_ptr<arrow::Table>> ToTable(const RoundBatch& batch) {
  std::vector<std::int64_t> ranks;
  for (std::size_t i = 0; i < batch.items.size(); ++i) ranks.push_back(static_cast<std::int64_t>(i) + 1);
  ARROW_ASSIGN_OR_RAISE(const auto rank, ToArray<arrow::Int64Builder>(ranks));
  ARROW_ASSIGN_OR_RAISE(const auto items, ToArray<arrow::StringBuilder>(batch.items));
  ARROW_ASSIGN_OR_RAISE(const auto predicted, ToArray<arrow::StringBuilder>(batch.predicted));
  ARROW_ASSIGN_OR_RAISE(const auto leverage, ToArray<arrow::DoubleBuilder>(batch.leverage));
  ARROW_ASSIGN_OR_RAISE(const auto gain, ToArray<arrow::DoubleBuilder>(batch.gain));
  std::vector<std::shared_ptr<arrow::Field>> fields = {
      arrow::field("rank", arrow::int64()), arrow::field("id", arrow::utf8()), arrow::field("class", arrow::utf8()),
      arrow::field("leverage", arrow::float64()), arrow::field("gain", arrow::float64())};
  std::vector<std::shared_ptr<arrow::Array>> columns = {rank, items, predicted, leverage, gain};
  if (batch.rank_in_class.size() == batch.items.size()) {
    const std::vector<std::string> strategies(batch.items.size(), batch.strategy);
    fields.push_back(arrow::field("strategy", arrow::utf8()));
    ARROW_ASSIGN_OR_RAISE(columns.emplace_back(), ToArray<arrow::StringBuilder>(strategies));
    fields.push_back(arrow::field("rank_in_class", arrow::int64()));
    ARROW_ASSIGN_OR_RAISE(columns.emplace_back(), ToArray<arrow::Int64Builder>(batch.rank_in_class));
    fields.push_back(arrow::field("class_size", arrow::int64()));
    ARROW_ASSIGN_OR_RAISE(columns.emplace_back(), ToArray<arrow::Int64Builder>(batch.class_size));
    fields.push_back(arrow::field("uncertainty", arrow::float64()));
    ARROW_ASSIGN_OR_RAISE(columns.emplace_back(), ToArray<arrow::DoubleBuilder>(batch.uncertainty));
    fields.push_back(arrow::field("nearest", arrow::utf8()));
    ARROW_ASSIGN_OR_RAISE(columns.emplace_back(), ToArray<arrow::StringBuilder>(batch.nearest));
  }
  return arrow::Table::Make(arrow::schema(fields), columns);
}

std::string ScoresName(std::int64_t round) {
  return absl::StrFormat("rounds/%06d-scores.parquet", round);
}

std::string BatchName(std::int64_t round) {
  return absl::StrFormat("rounds/%06d-batch.parquet", round);
}

template <typename Columns>
absl::StatusOr<std::string> WriteRoundFile(const CampaignFolder& folder, const std::string& name,
                                           const Columns& columns) {
  FULCRUM_ASSIGN_OR_RETURN(const auto table, ingest::FromArrow(ToTable(columns), absl::StrCat("preparing ", name)));
  FULCRUM_RETURN_IF_ERROR(
      ingest::FromArrow(table->Validate(), absl::StrCat("preparing ", name, ", whose columns differ in length")));
  FULCRUM_RETURN_IF_ERROR(ingest::WriteParquetFile(*table, folder.File(name)));
  FULCRUM_RETURN_IF_ERROR(SyncFolder(folder.rounds()));
  return name;
}

}  // namespace

absl::StatusOr<RecordModelRequest> WriteModelFile(const CampaignFolder& folder, std::int64_t round,
                                                  std::int64_t trained_on, std::string_view bytes) {
  const std::string name = absl::StrFormat("models/%06d-%012d.model", round, trained_on);
  FULCRUM_RETURN_IF_ERROR(ReplaceFile(folder.File(name), bytes));
  Checksum checksum;
  checksum.Add({bytes.data(), bytes.size()});
  return RecordModelRequest{.round = round, .trained_on = trained_on, .file = name, .checksum = checksum.ToText()};
}

absl::StatusOr<std::size_t> OpenModelFile(const CampaignFolder& folder, const StoredModel& model, std::ifstream& file) {
  constexpr std::size_t kPiece = std::size_t{1} << 20;
  const std::string path = folder.File(model.file);
  file.open(path, std::ios::binary);
  if (!file && WasRemoved(folder, model.file)) {
    return absl::NotFoundError(
        absl::StrCat("the model of round ", model.round, " was removed, as the campaign's retention rule says"));
  }
  if (!file) return absl::NotFoundError(absl::StrCat("the model '", path, "' is missing; restore a backup"));
  Checksum checksum;
  std::size_t size = 0;
  for (std::string piece(kPiece, '\0'); file;) {
    file.read(piece.data(), static_cast<std::streamsize>(piece.size()));
    const auto read = static_cast<std::size_t>(file.gcount());
    checksum.Add(std::string_view(piece).substr(0, read));
    size += read;
  }
  file.clear();
  file.seekg(0);
  if (checksum.ToText() == model.checksum) return size;
  return absl::DataLossError(absl::StrCat("the model '", path, "' is damaged: its checksum is ", checksum.ToText(),
                                          ", not ", model.checksum, "; train again or restore a backup"));
}

absl::StatusOr<std::string> ReadModelFile(const CampaignFolder& folder, const StoredModel& model) {
  std::ifstream file;
  FULCRUM_ASSIGN_OR_RETURN(const std::size_t size, OpenModelFile(folder, model, file));
  std::string bytes(size, '\0');
  if (file.read(bytes.data(), static_cast<std::streamsize>(size))) return bytes;
  return absl::UnavailableError(absl::StrCat("the model '", folder.File(model.file), "' cannot be read; try again"));
}

absl::StatusOr<std::vector<std::string>> ReadRoundPredictions(const CampaignFolder& folder, std::int64_t round) {
  const std::string path = folder.File(ScoresName(round));
  FULCRUM_ASSIGN_OR_RETURN(const auto table, ingest::ReadParquetFile(path));
  const auto column = table->GetColumnByName("class");
  if (column == nullptr) return absl::DataLossError(absl::StrCat("'", path, "' has no column 'class'"));
  std::vector<std::string> predicted;
  for (const auto& chunk : column->chunks()) {
    FULCRUM_RETURN_IF_ERROR(ingest::AppendPayloadColumn(*chunk, predicted));
  }
  return predicted;
}

namespace {

absl::StatusOr<std::vector<std::string>> TextColumn(const arrow::Table& table, const char* name) {
  const auto column = table.GetColumnByName(name);
  if (column == nullptr) return absl::DataLossError(absl::StrCat("there is no column '", name, "'"));
  std::vector<std::string> values;
  for (const auto& chunk : column->chunks()) FULCRUM_RETURN_IF_ERROR(ingest::AppendPayloadColumn(*chunk, values));
  return values;
}

template <typename Array, typename Value>
absl::StatusOr<std::vector<Value>> NumberColumn(const arrow::Table& table, const char* name) {
  const auto column = table.GetColumnByName(name);
  if (column == nullptr) return absl::DataLossError(absl::StrCat("there is no column '", name, "'"));
  std::vector<Value> values;
  for (const auto& chunk : column->chunks()) {
    if (chunk->type_id() != Array::TypeClass::type_id) {
      return absl::DataLossError(absl::StrCat("column '", name, "' is of the wrong type"));
    }
    const auto& numbers = static_cast<const Array&>(*chunk);
    for (std::int64_t i = 0; i < numbers.length(); ++i) values.push_back(numbers.Value(i));
  }
  return values;
}

}  // namespace

absl::StatusOr<RoundScores> ReadRoundScores(const CampaignFolder& folder, std::int64_t round) {
  FULCRUM_ASSIGN_OR_RETURN(const auto table, ingest::ReadParquetFile(folder.File(ScoresName(round))));
  RoundScores scores;
  FULCRUM_ASSIGN_OR_RETURN(scores.predicted, TextColumn(*table, "class"));
  FULCRUM_ASSIGN_OR_RETURN(scores.leverage, (NumberColumn<arrow::DoubleArray, double>(*table, "leverage")));
  return scores;
}

absl::StatusOr<RoundBatch> ReadRoundBatch(const CampaignFolder& folder, std::int64_t round) {
  FULCRUM_ASSIGN_OR_RETURN(const auto table, ingest::ReadParquetFile(folder.File(BatchName(round))));
  RoundBatch batch;
  FULCRUM_ASSIGN_OR_RETURN(batch.items, TextColumn(*table, "id"));
  FULCRUM_ASSIGN_OR_RETURN(batch.predicted, TextColumn(*table, "class"));
  FULCRUM_ASSIGN_OR_RETURN(batch.leverage, (NumberColumn<arrow::DoubleArray, double>(*table, "leverage")));
  FULCRUM_ASSIGN_OR_RETURN(batch.gain, (NumberColumn<arrow::DoubleArray, double>(*table, "gain")));
  if (table->GetColumnByName("rank_in_class") == nullptr) return batch;
  FULCRUM_ASSIGN_OR_RETURN(const std::vector<std::string> strategies, TextColumn(*table, "strategy"));
  if (!strategies.empty()) batch.strategy = strategies.front();
  FULCRUM_ASSIGN_OR_RETURN(batch.rank_in_class,
                           (NumberColumn<arrow::Int64Array, std::int64_t>(*table, "rank_in_class")));
  FULCRUM_ASSIGN_OR_RETURN(batch.class_size, (NumberColumn<arrow::Int64Array, std::int64_t>(*table, "class_size")));
  FULCRUM_ASSIGN_OR_RETURN(batch.uncertainty, (NumberColumn<arrow::DoubleArray, double>(*table, "uncertainty")));
  FULCRUM_ASSIGN_OR_RETURN(batch.nearest, TextColumn(*table, "nearest"));
  return batch;
}

absl::StatusOr<std::vector<std::string>> WriteRoundFiles(const CampaignFolder& folder, std::int64_t round,
                                                         const RoundScores& scores, const RoundBatch& batch) {
  std::vector<std::string> names(2);
  FULCRUM_ASSIGN_OR_RETURN(names[0], WriteRoundFile(folder, ScoresName(round), scores));
  FULCRUM_ASSIGN_OR_RETURN(names[1], WriteRoundFile(folder, BatchName(round), batch));
  return names;
}

namespace {

constexpr char kHeader[] = "class,row";

std::string NameOf(std::int64_t round) {
  return absl::StrFormat("rounds/%06d-landmarks.csv", round);
}

}  // namespace

absl::StatusOr<std::string> WriteLandmarkFile(const CampaignFolder& folder, std::int64_t round,
                                              const LandmarksByClass& landmarks) {
  std::string text = absl::StrCat(kHeader, "\n");
  for (const auto& [class_index, rows] : landmarks) {
    for (const RowIndex row : rows) absl::StrAppend(&text, class_index, ",", row, "\n");
  }
  FULCRUM_RETURN_IF_ERROR(ReplaceFile(folder.File(NameOf(round)), text));
  return NameOf(round);
}

absl::StatusOr<LandmarksByClass> ReadLandmarkFile(const CampaignFolder& folder, std::int64_t round,
                                                  std::size_t pool_rows) {
  const std::string path = folder.File(NameOf(round));
  std::ifstream file(path);
  LandmarksByClass landmarks;
  if (!file) return landmarks;
  std::string line;
  std::getline(file, line);
  bool good = line == kHeader;
  while (good && std::getline(file, line)) {
    const std::vector<std::string> cells = absl::StrSplit(line, ',');
    ClassIndex class_index = 0;
    RowIndex row = 0;
    good = cells.size() == 2 && absl::SimpleAtoi(cells[0], &class_index) && absl::SimpleAtoi(cells[1], &row) &&
           row < pool_rows;
    if (!good) break;
    RowList& rows = landmarks[class_index];
    good = rows.empty() || rows.back() < row;
    rows.push_back(row);
  }
  if (good) return landmarks;
  return absl::DataLossError(
      absl::StrCat("'", path, "' is damaged at the line '", line.substr(0, 80), "'; restore a backup"));
}

namespace {

constexpr std::size_t kTrailerBytes = 64;
constexpr char kFeaturesSuffix[] = ".features";

const char* TrailerText(ModelFileKind kind) {
  return kind == ModelFileKind::kFeatures ? "fulcrum features 1 " : "fulcrum predictions 1 ";
}

std::string_view BytesOf(std::span<const float> numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size_bytes()};
}

}  // namespace

absl::StatusOr<PredictionFileWriter> PredictionFileWriter::Create(const CampaignFolder& folder, std::int64_t round,
                                                                  std::int64_t lease, std::size_t columns,
                                                                  ModelFileKind kind) {
  PredictionFileWriter writer(columns, kind);
  // A second upload under the same lease must not touch the file of the first.
  writer.name_ = absl::StrFormat("models/%06d-%012d-%08x%s", round, lease, std::random_device{}(),
                                 kind == ModelFileKind::kFeatures ? kFeaturesSuffix : ".predictions");
  FULCRUM_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(folder.File(writer.name_)));
  writer.file_.emplace(std::move(file));
  return writer;
}

absl::Status PredictionFileWriter::Add(std::span<const float> values) {
  numbers_ += values.size();
  checksum_.Add(BytesOf(values));
  return file_ ? file_->Write(BytesOf(values)) : absl::OkStatus();
}

absl::Status PredictionFileWriter::Finish() {
  std::string trailer = absl::StrCat(TrailerText(kind_), rows(), " ", columns_);
  trailer.resize(kTrailerBytes - 1, ' ');
  trailer.push_back('\n');
  checksum_.Add(trailer);
  if (!file_) return absl::OkStatus();
  FULCRUM_RETURN_IF_ERROR(file_->Write(trailer));
  return file_->Commit();
}

void PredictionFileWriter::Discard() {
  if (!file_) return;
  std::error_code ignored;
  std::filesystem::remove(file_->path(), ignored);
}

namespace {

/// Reads the rows of a file in order, some whole ones at a time, and then compares its checksum. `begin` is told how
/// many rows and columns there are.
absl::Status ReadModelRows(const CampaignFolder& folder, const std::string& name, const std::string& checksum,
                           ModelFileKind kind, const std::function<void(std::size_t, std::size_t)>& begin,
                           const std::function<void(std::span<const float>)>& use) {
  constexpr std::size_t kFloatsAtOnce = std::size_t{1} << 18;
  const char* const what = kind == ModelFileKind::kFeatures ? "features" : "predictions";
  const std::string path = folder.File(name);
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return absl::NotFoundError(absl::StrCat("the ", what, " '", path, "' are missing; restore a backup"));
  const auto bytes = static_cast<std::size_t>(file.tellg());
  const auto damaged = [&](const char* how) {
    return absl::DataLossError(absl::StrCat("the ", what, " '", path, "' are damaged: ", how, "; restore a backup"));
  };
  if (bytes < kTrailerBytes || (bytes - kTrailerBytes) % sizeof(float) != 0) return damaged("their size is wrong");
  const std::size_t numbers = (bytes - kTrailerBytes) / sizeof(float);
  std::string trailer(kTrailerBytes, '\0');
  file.seekg(static_cast<std::streamoff>(bytes - kTrailerBytes));
  file.read(trailer.data(), static_cast<std::streamsize>(kTrailerBytes));
  absl::string_view text = trailer;
  if (!file || !absl::ConsumePrefix(&text, TrailerText(kind))) return damaged("the end is missing");
  const std::vector<std::string> parts = absl::StrSplit(text, absl::ByAnyChar(" \n"), absl::SkipEmpty());
  std::size_t rows = 0, columns = 0;
  const bool fits = parts.size() == 2 && absl::SimpleAtoi(parts[0], &rows) && absl::SimpleAtoi(parts[1], &columns) &&
                    columns > 0 && numbers / columns == rows && rows * columns == numbers;
  if (!fits) return damaged("the end does not fit the size");
  begin(rows, columns);
  Checksum found;
  std::vector<float> part;
  const std::size_t at_once = std::max<std::size_t>(1, kFloatsAtOnce / columns) * columns;
  file.seekg(0);
  for (std::size_t done = 0; done < numbers; done += part.size()) {
    part.resize(std::min(at_once, numbers - done));
    file.read(reinterpret_cast<char*>(part.data()), static_cast<std::streamsize>(part.size() * sizeof(float)));
    if (!file) return damaged("they cannot be read");
    found.Add(BytesOf(part));
    use(part);
  }
  found.Add(trailer);
  return found.ToText() == checksum ? absl::OkStatus() : damaged("the checksum differs");
}

}  // namespace

absl::StatusOr<StoredPredictions> ReadPredictionFile(const CampaignFolder& folder, const std::string& name,
                                                     const std::string& checksum) {
  StoredPredictions stored;
  FULCRUM_RETURN_IF_ERROR(ReadModelRows(
      folder, name, checksum, ModelFileKind::kPredictions,
      [&](std::size_t rows, std::size_t classes) {
        stored.rows = rows;
        stored.classes = classes;
        stored.probabilities.reserve(rows * classes);
      },
      [&](std::span<const float> part) {
        stored.probabilities.insert(stored.probabilities.end(), part.begin(), part.end());
      }));
  return stored;
}

absl::StatusOr<Matrix<double>> ReadFeatureFile(const CampaignFolder& folder, const std::string& name,
                                               const std::string& checksum) {
  Matrix<double> features;
  std::size_t row = 0;
  FULCRUM_RETURN_IF_ERROR(ReadModelRows(
      folder, name, checksum, ModelFileKind::kFeatures,
      [&](std::size_t rows, std::size_t columns) { features = Matrix<double>::Zero(rows, columns); },
      [&](std::span<const float> part) {
        for (; !part.empty(); part = part.subspan(features.cols()), ++row) {
          std::ranges::copy(part.first(features.cols()), features.row(row).begin());
        }
      }));
  return features;
}

void RemoveFeatureFilesBefore(const CampaignFolder& folder, std::int64_t round) {
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder.models(), error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    std::int64_t of = 0;
    if (!absl::EndsWith(name, kFeaturesSuffix) || !absl::SimpleAtoi(name.substr(0, name.find('-')), &of)) continue;
    std::error_code failed;  // The end of the next round tries again.
    if (of < round) std::filesystem::remove(entry->path(), failed);
  }
}

}  // namespace fulcrum::storage
