#include "pipeline/commands/select_inputs.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "arrow/builder.h"
#include "arrow/table.h"
#include "pipeline/round/memory_budget.h"
#include "pipeline/round/pool_source.h"
#include "stages/core/number_text.h"
#include "stages/core/status_macros.h"
#include "stages/ingest/arrow_status.h"
#include "stages/ingest/formats/csv.h"
#include "stages/ingest/labels.h"
#include "stages/ingest/normalize.h"
#include "stages/ingest/pool.h"
#include "stages/select/strategy_registry.h"

namespace fulcrum::pipeline {
namespace {

constexpr std::size_t kMostNamesShown = 3;

std::string FirstNames(const std::vector<std::string>& names) {
  const std::vector<std::string> shown(names.begin(),
                                       names.begin() + static_cast<long>(std::min(names.size(), kMostNamesShown)));
  return absl::StrCat("'", absl::StrJoin(shown, "', '"), names.size() > shown.size() ? "', ..." : "'");
}

struct LabelFiles {
  std::vector<ingest::RowLabel> labels;
  std::vector<ingest::RowLabel> predictions;
};

absl::StatusOr<LabelFiles> LoadLabelFiles(const SelectOptions& options, const ingest::RowIds& ids) {
  LabelFiles files;
  FULCRUM_ASSIGN_OR_RETURN(const std::size_t total, MemoryOf(options));
  ingest::InputLimits limits;
  limits.max_memory_bytes = static_cast<std::int64_t>(MemoryForPool(total).bytes);
  FULCRUM_ASSIGN_OR_RETURN(files.labels, ingest::LoadLabelFile(options.labels, ids, limits));
  if (!options.predictions.empty()) {
    FULCRUM_ASSIGN_OR_RETURN(files.predictions, ingest::LoadLabelFile(options.predictions, ids, limits));
  }
  return files;
}

absl::StatusOr<ingest::ClassNames> CollectClasses(const LabelFiles& files) {
  std::vector<std::string> names;
  for (const ingest::RowLabel& label : files.labels) names.push_back(label.label);
  for (const ingest::RowLabel& prediction : files.predictions) names.push_back(prediction.label);
  return ingest::ClassNames::FromLabels(std::move(names));
}

std::vector<ClassIndex> ByRow(const std::vector<ingest::RowLabel>& labels, const ingest::ClassNames& classes,
                              std::size_t rows) {
  std::vector<ClassIndex> by_row(rows, kUnlabeled);
  for (const ingest::RowLabel& label : labels) by_row[label.row] = classes.Find(label.label);
  return by_row;
}

// A labeled row's own label counts more than what a model says of it.
absl::Status CompletePredictions(const SelectOptions& options, SelectInputs& inputs) {
  std::vector<std::string> missing;
  for (std::size_t row = 0; row < inputs.labels.size(); ++row) {
    ClassIndex& prediction = (*inputs.predictions)[row];
    if (inputs.labels[row] != kUnlabeled) {
      prediction = inputs.labels[row];
    } else if (prediction == kUnlabeled) {
      missing.push_back(inputs.ids.TextOf(static_cast<RowIndex>(row)));
    }
  }
  if (missing.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(options.predictions, ": ", missing.size(), " of ", inputs.unlabeled(),
                   " unlabeled rows have no prediction: ", FirstNames(missing),
                   "\n  what to do: predict every row of the pool that has no label, or leave --predictions out"));
}

// Without labels of two classes there is no classifier; the round covers the pool instead.
absl::Status NoteFirstBatch(const SelectOptions& options, SelectInputs& inputs) {
  FULCRUM_ASSIGN_OR_RETURN(const auto strategy, select::MakeStrategy(options.strategy));
  const select::Requirements needs = strategy->requirements();
  const bool needs_classes =
      needs.predictions || needs.confidence || needs.probabilities || needs.margin || needs.class_groups;
  if (!needs_classes && inputs.predictions) {
    return absl::InvalidArgumentError(absl::StrCat(
        "strategy '", options.strategy, "' does not use predictions, and --predictions is ", options.predictions,
        "\n  what to do: leave --predictions out, or choose a strategy that uses them (--strategy dbalevs)"));
  }
  if (!strategy->needs_labels() || inputs.predictions || inputs.classes.size() >= 2) return absl::OkStatus();
  const std::string found = inputs.classes.size() == 0
                                ? "has no labels"
                                : absl::StrCat("has labels of one class only ('", inputs.classes.NameOf(0), "')");
  inputs.notes.push_back(absl::StrCat(options.labels, " ", found, ", so there is no classifier yet: the batch covers ",
                                      "the pool (strategy ", select::kStrategyWithoutLabels, ")"));
  return absl::OkStatus();
}

// By class, how often it is in `by_row`.
std::vector<std::size_t> Count(const std::vector<ClassIndex>& by_row, std::size_t classes) {
  std::vector<std::size_t> counts(classes, 0);
  for (ClassIndex index : by_row) {
    if (index != kUnlabeled) ++counts[static_cast<std::size_t>(index)];
  }
  return counts;
}

void NoteClassesWithoutLabels(SelectInputs& inputs) {
  const std::vector<std::size_t> counts = Count(inputs.labels, inputs.classes.size());
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] > 0) continue;
    inputs.notes.push_back(
        absl::StrCat("class '", inputs.classes.names()[i],
                     "' has no labels yet, only predictions: its rows are compared with each other only"));
  }
}

void NoteConstantColumns(const ingest::Normalizer& normalizer, const ingest::Pool& pool, std::size_t columns,
                         std::vector<std::string>& notes) {
  if (normalizer.constant_columns().empty()) return;
  std::vector<std::string> names;
  for (std::size_t column : normalizer.constant_columns()) names.push_back(pool.FeatureName(column));
  notes.push_back(absl::StrCat(names.size(), " of ", columns, " columns ",
                               names.size() == 1 ? "is constant and tells" : "are constant and tell",
                               " nothing apart: ", FirstNames(names)));
}

absl::StatusOr<std::shared_ptr<const TunedSettings>> ChooseSettings(const SelectOptions& options,
                                                                    const FeatureSource& source,
                                                                    std::span<const ClassIndex> labels) {
  absl::StatusOr<TunedSettings> tuned = Tune(source, labels, options.seed);
  if (!tuned.ok())
    return absl::Status(tuned.status().code(), absl::StrCat(options.pool, ": ", tuned.status().message()));
  return std::make_shared<const TunedSettings>(*std::move(tuned));
}

absl::StatusOr<std::unique_ptr<kernel::Features>> Normalize(const SelectOptions& options, const std::string& normalize,
                                                            ingest::Pool& pool, std::vector<std::string>& notes) {
  FULCRUM_ASSIGN_OR_RETURN(const auto steps, ingest::ParseNormalization(normalize));
  const bool was_sparse = pool.features.is_sparse();
  const auto normalizer = ingest::Normalizer::FitInPlace(steps, pool.features);
  if (!normalizer.ok()) {
    return absl::Status(normalizer.status().code(), absl::StrCat(options.pool, ": ", normalizer.status().message()));
  }
  NoteConstantColumns(*normalizer, pool, pool.features.cols(), notes);
  if (was_sparse && !pool.features.is_sparse()) {
    notes.push_back(absl::StrCat("the z-score made the sparse features dense (", pool.features.rows(), " x ",
                                 pool.features.cols(), "); --normalize unit keeps them sparse"));
  }
  return MakeFeatures(std::move(pool.features));
}

absl::StatusOr<std::optional<MappedSource>> MapPool(const SelectOptions& options) {
  FULCRUM_ASSIGN_OR_RETURN(
      const auto steps,
      ingest::ParseNormalization(TunesClassifier(options) ? "none" : absl::string_view(options.normalize)));
  FULCRUM_ASSIGN_OR_RETURN(const std::size_t memory, MemoryOf(options));
  return MapLargePool(options.pool, steps, memory);
}

/// Tunes with the rows as they are on the disk, and normalises them as was chosen.
absl::Status TuneMapped(const SelectOptions& options, MappedSource& mapped, SelectInputs& inputs) {
  if (!TunesClassifier(options)) return absl::OkStatus();
  const MappedFeatureSource source(*mapped.features, mapped.pool);
  FULCRUM_ASSIGN_OR_RETURN(inputs.tuned, ChooseSettings(options, source, inputs.labels));
  FULCRUM_ASSIGN_OR_RETURN(const auto normalizer, source.NormalizerFor(inputs.tuned->chosen.normalize));
  mapped.features = mapped.features->NormalizedWith(*normalizer);
  return absl::OkStatus();
}

absl::StatusOr<SelectInputs> Combine(const SelectOptions& options, ingest::Pool& pool, const LabelFiles& files,
                                     ingest::ClassNames classes) {
  const std::size_t rows = pool.ids.size();
  SelectInputs inputs{.ids = std::move(pool.ids),
                      .features = nullptr,
                      .tuned = nullptr,
                      .classes = std::move(classes),
                      .labels = {},
                      .predictions = {},
                      .notes = {}};
  inputs.labels = ByRow(files.labels, inputs.classes, rows);
  inputs.labeled = files.labels.size();
  if (inputs.unlabeled() == 0) {
    return absl::OutOfRangeError(
        absl::StrCat("nothing left to select: all ", rows, " rows of ", options.pool, " are labeled"));
  }
  if (!options.predictions.empty()) {
    inputs.predictions = ByRow(files.predictions, inputs.classes, rows);
    FULCRUM_RETURN_IF_ERROR(CompletePredictions(options, inputs));
    NoteClassesWithoutLabels(inputs);
  }
  FULCRUM_RETURN_IF_ERROR(NoteFirstBatch(options, inputs));
  return inputs;
}

}  // namespace

absl::StatusOr<SelectInputs> LoadSelectInputs(const SelectOptions& options, Progress& progress, StageClock& clock) {
  progress.Update("read", 0, 0);
  const auto on_rows = [&](std::size_t rows) { progress.Update("read", rows, 0); };
  FULCRUM_ASSIGN_OR_RETURN(std::optional<MappedSource> mapped, clock.Measure("read", [&] { return MapPool(options); }));
  ingest::Pool pool;
  if (mapped) {
    pool.ids = std::move(mapped->ids);
    pool.feature_names = std::move(mapped->feature_names);
  } else {
    FULCRUM_ASSIGN_OR_RETURN(const std::size_t total, MemoryOf(options));
    const PoolMemory memory = MemoryForPool(total);
    ingest::PoolOptions reading = {.keep_labels = false, .on_progress = on_rows, .columns = options.columns};
    reading.limits.max_memory_bytes = static_cast<std::int64_t>(memory.bytes);
    reading.extra_bytes_per_row = memory.bytes_per_row;
    FULCRUM_ASSIGN_OR_RETURN(pool, clock.Measure("read", [&] { return LoadAnyPool(options.pool, reading); }));
  }
  FULCRUM_ASSIGN_OR_RETURN(const LabelFiles files,
                           clock.Measure("read", [&] { return LoadLabelFiles(options, pool.ids); }));
  FULCRUM_ASSIGN_OR_RETURN(ingest::ClassNames classes, CollectClasses(files));
  FULCRUM_ASSIGN_OR_RETURN(SelectInputs inputs, Combine(options, pool, files, std::move(classes)));
  if (mapped) {
    FULCRUM_RETURN_IF_ERROR(clock.Measure("tune", [&] { return TuneMapped(options, *mapped, inputs); }));
    NoteConstantColumns(mapped->features->normalizer(), pool, mapped->features->dims(), inputs.notes);
    inputs.features = std::move(mapped->features);
    return inputs;
  }
  std::string normalize = options.normalize;
  if (TunesClassifier(options)) {
    progress.Update("tune", 0, 0);
    MakeDenseIfWorthwhile(pool.features);
    FULCRUM_ASSIGN_OR_RETURN(inputs.tuned, clock.Measure("tune", [&] {
      return ChooseSettings(options, MemoryFeatureSource(pool.features), inputs.labels);
    }));
    normalize = inputs.tuned->chosen.normalize;
  }
  progress.Update("normalize", 0, 0);
  FULCRUM_ASSIGN_OR_RETURN(
      inputs.features, clock.Measure("normalize", [&] { return Normalize(options, normalize, pool, inputs.notes); }));
  return inputs;
}

namespace {

void AppendClass(const SelectInputs& inputs, ClassIndex index, std::string& text) {
  if (index != kUnlabeled) ingest::AppendCsvField(inputs.classes.NameOf(index), text);
}

}  // namespace

ClassIndex ClassOf(const SelectInputs& inputs, const RoundResult& result, RowIndex row) {
  return result.predicted.empty() ? inputs.labels[row] : result.predicted[row];
}

std::string BatchTable(const SelectInputs& inputs, const RoundResult& result) {
  std::string text = "rank,id,class,leverage,gain\n";
  std::size_t rank = 0;
  for (const select::Pick& pick : result.selection.picks) {
    absl::StrAppend(&text, ++rank, ",");
    ingest::AppendCsvField(inputs.ids.TextOf(pick.row), text);
    text.push_back(',');
    AppendClass(inputs, pick.class_index == kUnlabeled ? ClassOf(inputs, result, pick.row) : pick.class_index, text);
    text.push_back(',');
    AppendNumber(pick.leverage, text);
    text.push_back(',');
    AppendNumber(pick.gain, text);
    text.push_back('\n');
  }
  return text;
}

std::string ScoresTable(const SelectInputs& inputs, const RoundResult& result) {
  std::string text = "id,class,labeled,leverage\n";
  for (std::size_t i = 0; i < inputs.labels.size(); ++i) {
    const auto row = static_cast<RowIndex>(i);
    ingest::AppendCsvField(inputs.ids.TextOf(row), text);
    text.push_back(',');
    AppendClass(inputs, ClassOf(inputs, result, row), text);
    text.append(inputs.labels[i] == kUnlabeled ? ",0," : ",1,");
    if (!result.leverage.empty()) AppendNumber(result.leverage[i], text);
    text.push_back('\n');
  }
  return text;
}

namespace {

constexpr char kDoing[] = "cannot make the table";

arrow::Status AppendClass(const SelectInputs& inputs, ClassIndex index, arrow::StringBuilder& builder) {
  return index == kUnlabeled ? builder.AppendNull() : builder.Append(inputs.classes.NameOf(index));
}

arrow::Result<std::shared_ptr<arrow::Table>> ToTable(const std::vector<std::string>& names,
                                                     const std::vector<arrow::ArrayBuilder*>& builders) {
  arrow::FieldVector fields;
  arrow::ArrayVector arrays;
  for (std::size_t i = 0; i < names.size(); ++i) {
    ARROW_ASSIGN_OR_RAISE(arrays.emplace_back(), builders[i]->Finish());
    fields.push_back(arrow::field(names[i], arrays.back()->type()));
  }
  return arrow::Table::Make(arrow::schema(fields), arrays);
}

arrow::Result<std::shared_ptr<arrow::Table>> BatchAsTable(const SelectInputs& inputs, const RoundResult& result) {
  arrow::Int64Builder ranks;
  arrow::StringBuilder ids, classes;
  arrow::DoubleBuilder leverages, gains;
  std::int64_t rank = 0;
  for (const select::Pick& pick : result.selection.picks) {
    ARROW_RETURN_NOT_OK(ranks.Append(++rank));
    ARROW_RETURN_NOT_OK(ids.Append(inputs.ids.TextOf(pick.row)));
    const ClassIndex known = pick.class_index == kUnlabeled ? ClassOf(inputs, result, pick.row) : pick.class_index;
    ARROW_RETURN_NOT_OK(AppendClass(inputs, known, classes));
    ARROW_RETURN_NOT_OK(leverages.Append(pick.leverage));
    ARROW_RETURN_NOT_OK(gains.Append(pick.gain));
  }
  return ToTable({"rank", "id", "class", "leverage", "gain"}, {&ranks, &ids, &classes, &leverages, &gains});
}

arrow::Result<std::shared_ptr<arrow::Table>> ScoresAsTable(const SelectInputs& inputs, const RoundResult& result) {
  arrow::StringBuilder ids, classes;
  arrow::BooleanBuilder labeled;
  arrow::DoubleBuilder leverages;
  for (std::size_t i = 0; i < inputs.labels.size(); ++i) {
    const auto row = static_cast<RowIndex>(i);
    ARROW_RETURN_NOT_OK(ids.Append(inputs.ids.TextOf(row)));
    ARROW_RETURN_NOT_OK(AppendClass(inputs, ClassOf(inputs, result, row), classes));
    ARROW_RETURN_NOT_OK(labeled.Append(inputs.labels[i] != kUnlabeled));
    ARROW_RETURN_NOT_OK(result.leverage.empty() ? leverages.AppendNull() : leverages.Append(result.leverage[i]));
  }
  return ToTable({"id", "class", "labeled", "leverage"}, {&ids, &classes, &labeled, &leverages});
}

}  // namespace

std::optional<ingest::TableFormat> TypedFormatOf(const std::string& path) {
  const auto format = ingest::FormatOf(path);
  const bool typed = format.ok() && *format != ingest::TableFormat::kCsv && *format != ingest::TableFormat::kLibsvm;
  return typed ? std::optional(*format) : std::nullopt;
}

absl::StatusOr<std::string> BatchBytes(const SelectInputs& inputs, const RoundResult& result,
                                       ingest::TableFormat format) {
  FULCRUM_ASSIGN_OR_RETURN(const auto table, ingest::FromArrow(BatchAsTable(inputs, result), kDoing));
  return ingest::SerializeTable(format, *table);
}

absl::StatusOr<std::string> ScoresBytes(const SelectInputs& inputs, const RoundResult& result,
                                        ingest::TableFormat format) {
  FULCRUM_ASSIGN_OR_RETURN(const auto table, ingest::FromArrow(ScoresAsTable(inputs, result), kDoing));
  return ingest::SerializeTable(format, *table);
}

}  // namespace fulcrum::pipeline
