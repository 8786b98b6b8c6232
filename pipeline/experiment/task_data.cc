#include "pipeline/experiment/task_data.h"

#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "pipeline/round/pool_source.h"
#include "stages/core/files.h"
#include "stages/core/number_text.h"
#include "stages/core/parallel.h"
#include "stages/core/random.h"
#include "stages/core/rows.h"
#include "stages/core/status_macros.h"
#include "stages/ingest/pool.h"

namespace fulcrum::pipeline {
namespace {

constexpr std::size_t kRowsPerTask = 256;

struct RawData {
  Matrix<double> features;
  std::vector<std::string> labels;
};

RawData Generate(const GeneratedData& settings) {
  RawData data;
  data.features = Matrix<double>(settings.rows, settings.dims);
  data.labels.resize(settings.rows);
  ParallelForBlocks(settings.rows, kRowsPerTask, [&](std::size_t first, std::size_t count) {
    for (std::size_t row = first; row < first + count; ++row) {
      data.labels[row] = absl::StrCat(ingest::GenerateRow(settings.problem, row, data.features.row(row)));
    }
  });
  return data;
}

absl::Status CheckDenseFits(const std::string& name, std::size_t rows, std::size_t columns,
                            const ingest::InputLimits& limits) {
  const auto most = static_cast<std::size_t>(limits.max_memory_bytes);
  if (rows == 0 || columns <= most / sizeof(double) / rows) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(name, ": ", rows, " rows of ", columns, " features do not fit the ",
                                                   most >> 20, " MiB that the data of an experiment may take"));
}

absl::StatusOr<RawData> Read(const std::string& path, const ingest::InputLimits& limits) {
  FULCRUM_ASSIGN_OR_RETURN(ingest::Pool pool, LoadAnyPool(path, {.keep_labels = true, .limits = limits}));
  if (!pool.labels) {
    return absl::DataLossError(
        absl::StrCat(path, " has no column 'label'; an experiment asks it for the answers, so add one"));
  }
  FULCRUM_RETURN_IF_ERROR(CheckDenseFits(path, pool.features.rows(), pool.features.cols(), limits));
  // Products of rows are looked up in a table, which is dense whatever the rows are; so the rows are, too.
  pool.features.MakeDense();
  return RawData{std::move(pool.features.dense()), *std::move(pool.labels)};
}

std::uint64_t ChecksumOf(const TaskData& data) {
  std::uint64_t checksum = 0;
  for (std::size_t row = 0; row < data.features.rows(); ++row) {
    const auto values = data.features.row(row);
    const std::string_view bytes(reinterpret_cast<const char*>(values.data()), values.size_bytes());
    checksum = checksum * 31 + fulcrum::ChecksumOf(bytes) + static_cast<std::uint64_t>(data.labels[row]);
  }
  return checksum;
}

/// A class by its name, or by its number if the file writes it another way ("+1").
ClassIndex FindClass(const ingest::ClassNames& classes, const std::string& name) {
  const ClassIndex exact = classes.Find(name);
  const std::optional<double> number = ParseNumber(name);
  if (exact != kUnlabeled || !number) return exact;
  for (std::size_t i = 0; i < classes.size(); ++i) {
    if (ParseNumber(classes.names()[i]) == number) return static_cast<ClassIndex>(i);
  }
  return kUnlabeled;
}

/// The class 1 if there is one, otherwise the rarest; the first of equally rare ones.
ClassIndex DefaultPositive(const ingest::ClassNames& classes, const std::vector<std::string>& labels) {
  if (const ClassIndex one = FindClass(classes, "1"); one != kUnlabeled) return one;
  std::vector<std::size_t> counts(classes.size(), 0);
  for (const std::string& label : labels) ++counts[static_cast<std::size_t>(classes.Find(label))];
  return static_cast<ClassIndex>(std::ranges::min_element(counts) - counts.begin());
}

absl::StatusOr<TaskData> Label(const TaskSettings& task, RawData raw) {
  FULCRUM_ASSIGN_OR_RETURN(const ingest::ClassNames classes, ingest::ClassNames::FromLabels(raw.labels));
  if (classes.size() < 2) {
    return absl::DataLossError(absl::StrCat("task ", task.name, ": the data has ", classes.size(),
                                            " classes; an experiment needs at least two"));
  }
  TaskData data;
  data.positive = task.positive.empty() ? DefaultPositive(classes, raw.labels) : FindClass(classes, task.positive);
  if (data.positive == kUnlabeled) {
    return absl::DataLossError(absl::StrCat("task ", task.name, ": no row has the class '", task.positive,
                                            "', which 'positive' names; the classes are ",
                                            absl::StrJoin(classes.names(), ", ")));
  }
  data.features = std::move(raw.features);
  data.labels.reserve(raw.labels.size());
  for (const std::string& label : raw.labels) data.labels.push_back(classes.Find(label));
  data.class_names = classes.names();
  data.checksum = ChecksumOf(data);
  return data;
}

/// A URI, or a path below the data folder unless it begins at the root.
std::string PlaceOf(const std::string& data, const std::string& data_folder) {
  return absl::StrContains(data, "://") ? data : (std::filesystem::path(data_folder) / data).string();
}

}  // namespace

absl::StatusOr<TaskData> LoadTaskData(const TaskSettings& task, const std::string& data_folder,
                                      const ingest::InputLimits& limits) {
  if (task.generated) {
    FULCRUM_RETURN_IF_ERROR(CheckDenseFits(task.name, task.generated->rows, task.generated->dims, limits));
    return Label(task, Generate(*task.generated));
  }
  FULCRUM_ASSIGN_OR_RETURN(RawData raw, Read(PlaceOf(task.data, data_folder), limits));
  return Label(task, std::move(raw));
}

namespace {

// Files with one line per run, of row numbers from 0, separated by commas: published splits and starts.

/// zlib also reads files that are not compressed.
absl::StatusOr<std::string> ReadText(const std::string& path) {
  if (!std::filesystem::exists(path)) return absl::NotFoundError(absl::StrCat("there is no file '", path, "'"));
  gzFile file = gzopen(path.c_str(), "rb");
  if (file == nullptr) return absl::DataLossError(absl::StrCat("cannot read '", path, "'"));
  std::string text;
  std::vector<char> buffer(1 << 16);
  int count = 0;
  while ((count = gzread(file, buffer.data(), static_cast<unsigned>(buffer.size()))) > 0) {
    text.append(buffer.data(), static_cast<std::size_t>(count));
  }
  gzclose(file);
  if (count < 0) return absl::DataLossError(absl::StrCat("'", path, "' is damaged: gzip cannot unpack it"));
  return text;
}

absl::StatusOr<RowList> ParseLine(absl::string_view line, std::size_t row_count) {
  RowList rows;
  std::vector<bool> seen(row_count, false);
  for (absl::string_view part : absl::StrSplit(line, ',')) {
    RowIndex row = 0;
    if (!absl::SimpleAtoi(part, &row)) return absl::DataLossError(absl::StrCat("'", part, "' is no row number"));
    if (row >= row_count) {
      return absl::DataLossError(absl::StrCat("row ", row, " does not exist; the data has ", row_count, " rows"));
    }
    if (seen[row]) return absl::DataLossError(absl::StrCat("row ", row, " comes twice"));
    seen[row] = true;
    rows.push_back(row);
  }
  return rows;
}

/// Reads such a file, gzipped or not. NotFound if it is absent; DataLoss if a number is invalid, is not below
/// `row_count` or occurs twice on its line.
absl::StatusOr<std::vector<RowList>> LoadIndexFile(const std::string& path, std::size_t row_count) {
  FULCRUM_ASSIGN_OR_RETURN(const std::string text, ReadText(path));
  std::vector<RowList> lines;
  std::size_t number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    line = absl::StripAsciiWhitespace(line);
    if (line.empty()) continue;
    absl::StatusOr<RowList> rows = ParseLine(line, row_count);
    if (!rows.ok()) {
      return absl::Status(rows.status().code(), absl::StrCat(path, ", line ", number, ": ", rows.status().message()));
    }
    lines.push_back(*std::move(rows));
  }
  return lines;
}

// Separate streams of random numbers for what is drawn separately: a given start must not change the halves.
enum Stream : std::uint64_t { kUniverse, kHalves, kStart };

absl::StatusOr<std::vector<RowList>> LoadWhereNamed(const std::string& folder, const std::string& name,
                                                    std::size_t rows) {
  if (name.empty()) return std::vector<RowList>();
  absl::StatusOr<std::vector<RowList>> lines = LoadIndexFile((std::filesystem::path(folder) / name).string(), rows);
  if (absl::IsNotFound(lines.status())) return std::vector<RowList>();
  return lines;
}

RowList RowsNotIn(const RowList& rows, std::size_t row_count) {
  std::vector<bool> taken(row_count, false);
  for (const RowIndex row : rows) taken[row] = true;
  RowList others;
  for (std::size_t row = 0; row < row_count; ++row) {
    if (!taken[row]) others.push_back(static_cast<RowIndex>(row));
  }
  return others;
}

}  // namespace

RunSplits::RunSplits(const ExperimentSpec& spec, const TaskSettings& task, const TaskData& data)
    : seed_(spec.seed ^ fulcrum::ChecksumOf(task.name)),
      start_per_class_(spec.start_per_class),
      task_(&task),
      data_(&data) {}

absl::StatusOr<RunSplits> RunSplits::Load(const ExperimentSpec& spec, const TaskSettings& task, const TaskData& data,
                                          const std::string& data_folder) {
  RunSplits splits(spec, task, data);
  const std::size_t rows = data.labels.size();
  FULCRUM_ASSIGN_OR_RETURN(splits.halves_, LoadWhereNamed(data_folder, task.train_splits, rows));
  FULCRUM_ASSIGN_OR_RETURN(splits.starts_, LoadWhereNamed(data_folder, task.starts, rows));
  // A start belongs to a training half and is not valid without it.
  splits.starts_.resize(std::min(splits.starts_.size(), splits.halves_.size()));
  return splits;
}

RowList RunSplits::DrawUniverse(std::uint64_t seed) const {
  RowList all(data_->labels.size());
  std::iota(all.begin(), all.end(), RowIndex{0});
  if (!task_->imbalance) return all;
  Random random = Random::Fork(seed, kUniverse);
  random.Shuffle(std::span<RowIndex>(all));
  std::size_t majority = 0;
  const auto is_majority = [&](RowIndex row) {
    return data_->class_names[static_cast<std::size_t>(data_->labels[row])] == task_->imbalance->majority;
  };
  for (const RowIndex row : all) majority += is_majority(row) ? 1 : 0;
  const double ratio = task_->imbalance->ratio;
  const auto others = static_cast<double>(all.size() - majority);
  const double kept_majority = std::min(static_cast<double>(majority), std::floor(others * ratio));
  auto majority_left = static_cast<std::size_t>(kept_majority);
  auto others_left = static_cast<std::size_t>(std::max(1.0, std::round(kept_majority / ratio)));
  RowList kept;
  for (const RowIndex row : all) {
    std::size_t& left = is_majority(row) ? majority_left : others_left;
    if (left == 0) continue;
    --left;
    kept.push_back(row);
  }
  std::sort(kept.begin(), kept.end());
  return kept;
}

absl::StatusOr<Split> RunSplits::Make(std::size_t run) const {
  const std::uint64_t seed = Random::Fork(seed_, run).Next();
  Split split;
  if (run < halves_.size()) {
    split.given_halves = true;
    split.train = halves_[run];
    split.test = RowsNotIn(split.train, data_->labels.size());
  } else {
    RowList universe = DrawUniverse(seed);
    Random random = Random::Fork(seed, kHalves);
    random.Shuffle(std::span<RowIndex>(universe));
    const auto middle = universe.begin() + static_cast<std::ptrdiff_t>(universe.size() / 2);
    split.train.assign(universe.begin(), middle);
    split.test.assign(middle, universe.end());
  }
  // In the order of the data, so that ties go to the same row whatever the order of the file.
  std::sort(split.train.begin(), split.train.end());
  std::sort(split.test.begin(), split.test.end());
  if (split.test.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("task ", task_->name, ", run ", run, ": the training half is all of the data"));
  }
  if (run < starts_.size()) {
    split.given_start = true;
    split.start = starts_[run];
    FULCRUM_RETURN_IF_ERROR(CheckStart(run, split));
  } else {
    FULCRUM_ASSIGN_OR_RETURN(split.start, DrawStart(seed, split.train));
  }
  std::sort(split.start.begin(), split.start.end());
  return split;
}

absl::Status RunSplits::CheckStart(std::size_t run, const Split& split) const {
  std::vector<std::size_t> counts(data_->class_names.size(), 0);
  const auto place = [&] { return absl::StrCat(task_->starts, ", line ", run + 1, ": "); };
  for (const RowIndex row : split.start) {
    if (!std::binary_search(split.train.begin(), split.train.end(), row)) {
      return absl::DataLossError(absl::StrCat(place(), "row ", row, " is not in the training half of ",
                                              task_->train_splits, "; the two files do not belong together"));
    }
    ++counts[static_cast<std::size_t>(data_->labels[row])];
  }
  for (std::size_t c = 0; c < counts.size(); ++c) {
    if (counts[c] > 0) continue;
    return absl::DataLossError(
        absl::StrCat(place(), "no row has the class '", data_->class_names[c], "'; a start needs every class"));
  }
  return absl::OkStatus();
}

absl::StatusOr<RowList> RunSplits::DrawStart(std::uint64_t seed, const RowList& train) const {
  RowList shuffled = train;
  Random random = Random::Fork(seed, kStart);
  random.Shuffle(std::span<RowIndex>(shuffled));
  std::vector<std::size_t> missing(data_->class_names.size(), start_per_class_);
  RowList start;
  for (const RowIndex row : shuffled) {
    std::size_t& left = missing[static_cast<std::size_t>(data_->labels[row])];
    if (left == 0) continue;
    --left;
    start.push_back(row);
  }
  for (std::size_t c = 0; c < missing.size(); ++c) {
    if (missing[c] == 0) continue;
    return absl::FailedPreconditionError(absl::StrCat("task ", task_->name, ": a training half has only ",
                                                      start_per_class_ - missing[c], " rows of class '",
                                                      data_->class_names[c], "'; the start needs ", start_per_class_));
  }
  return start;
}

}  // namespace fulcrum::pipeline
