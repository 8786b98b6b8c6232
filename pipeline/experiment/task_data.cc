#include "pipeline/experiment/task_data.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "pipeline/round/pool_source.h"
#include "stages/classify/model_file.h"
#include "stages/core/number_text.h"
#include "stages/core/parallel.h"
#include "stages/core/status_macros.h"
#include "stages/ingest/labels.h"
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
    checksum = checksum * 31 + classify::ChecksumOf(bytes) + static_cast<std::uint64_t>(data.labels[row]);
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

}  // namespace fulcrum::pipeline
