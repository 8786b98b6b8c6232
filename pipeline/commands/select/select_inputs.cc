#include "pipeline/commands/select/select_inputs.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "pipeline/round/memory_budget.h"
#include "pipeline/round/pool_source.h"
#include "stages/core/files.h"
#include "stages/core/status_macros.h"
#include "stages/ingest/arrow_status.h"
#include "stages/ingest/formats/table_source.h"
#include "stages/ingest/normalize.h"
#include "stages/ingest/pool.h"
#include "stages/select/strategy.h"

namespace fulcrum::pipeline {
namespace {

constexpr std::size_t kMostNamesShown = 3;

std::string FirstNames(const std::vector<std::string>& names) {
  const std::vector<std::string> shown(names.begin(),
                                       names.begin() + static_cast<long>(std::min(names.size(), kMostNamesShown)));
  return absl::StrCat("'", absl::StrJoin(shown, "', '"), names.size() > shown.size() ? "', ..." : "'");
}

/// Class probabilities from a model of the user's own: a column per class.
struct ProbabilityTable {
  std::vector<std::string> classes;
  RowList rows;           ///< of the pool, by row of the table
  Matrix<double> values;  ///< table rows x classes
};

struct LabelFiles {
  std::vector<ingest::RowLabel> labels;
  std::vector<ingest::RowLabel> predictions;
  std::optional<ProbabilityTable> probabilities;
};

// How far the probabilities of a row may be from a sum of 1.
constexpr double kSumTolerance = 1e-3;

absl::Status CheckProbabilities(const std::string& path, const ingest::Pool& table) {
  const Matrix<double>& values = table.features.dense();
  for (std::size_t i = 0; i < values.rows(); ++i) {
    double sum = 0;
    for (std::size_t c = 0; c < values.cols(); ++c) {
      const double p = values(i, c);
      sum += p;
      if (p >= 0 && p <= 1 + kSumTolerance) continue;
      return absl::FailedPreconditionError(absl::StrCat(path, ": the probability of class '", table.feature_names[c],
                                                        "' of row '", table.ids.TextOf(static_cast<RowIndex>(i)),
                                                        "' is ", p, "; it must be from 0 to 1"));
    }
    if (std::abs(sum - 1) <= kSumTolerance) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        path, ": the probabilities of row '", table.ids.TextOf(static_cast<RowIndex>(i)), "' sum to ", sum,
        "; they must sum to 1\n  what to do: every column but 'id' must be the probability of the class it is named "
        "after; or give the predicted class in a column 'label'"));
  }
  return absl::OkStatus();
}

absl::StatusOr<ProbabilityTable> LoadProbabilities(const std::string& path, const ingest::RowIds& ids,
                                                   const ingest::InputLimits& limits) {
  ingest::PoolOptions options;
  options.limits = limits;
  FULCRUM_ASSIGN_OR_RETURN(ingest::Pool table, ingest::LoadPool(path, options));
  if (table.features.is_sparse() || table.feature_names.size() != table.features.cols() || table.features.cols() < 2) {
    return absl::FailedPreconditionError(absl::StrCat(
        path, ": there is neither a column 'label' nor a column of probabilities for each of two classes or more"));
  }
  FULCRUM_RETURN_IF_ERROR(CheckProbabilities(path, table));
  ProbabilityTable found{.classes = table.feature_names, .rows = {}, .values = {}};
  std::vector<bool> seen(ids.size(), false);
  for (std::size_t i = 0; i < table.ids.size(); ++i) {
    const std::string id = table.ids.TextOf(static_cast<RowIndex>(i));
    const auto row = ids.Find(id);
    if (!row) return absl::FailedPreconditionError(absl::StrCat(path, ": the pool has no row '", id, "'"));
    if (seen[*row]) return absl::FailedPreconditionError(absl::StrCat(path, ": row '", id, "' is listed twice"));
    seen[*row] = true;
    found.rows.push_back(*row);
  }
  found.values = std::move(table.features.dense());
  return found;
}

absl::StatusOr<LabelFiles> LoadLabelFiles(const SelectOptions& options, const ingest::RowIds& ids) {
  LabelFiles files;
  FULCRUM_ASSIGN_OR_RETURN(const std::size_t total, MemoryHere(options));
  ingest::InputLimits limits;
  limits.max_memory_bytes = static_cast<std::int64_t>(MemoryForPool(total).bytes);
  FULCRUM_ASSIGN_OR_RETURN(files.labels, ingest::LoadLabelFile(options.labels, ids, limits));
  if (!options.predictions.empty()) {
    FULCRUM_ASSIGN_OR_RETURN(const auto source, ingest::OpenTable(options.predictions, {.limits = limits}));
    const std::vector<std::string>& columns = source->column_names();
    // A table with a label has classes; one without has probabilities.
    const std::size_t others =
        columns.size() - static_cast<std::size_t>(std::ranges::count(columns, std::string("id")));
    if (std::ranges::find(columns, std::string("label")) == columns.end() && others >= 2) {
      FULCRUM_ASSIGN_OR_RETURN(files.probabilities, LoadProbabilities(options.predictions, ids, limits));
    } else {
      FULCRUM_ASSIGN_OR_RETURN(files.predictions, ingest::LoadLabelFile(options.predictions, ids, limits));
    }
  }
  return files;
}

absl::StatusOr<ingest::ClassNames> CollectClasses(const LabelFiles& files) {
  std::vector<std::string> names;
  for (const ingest::RowLabel& label : files.labels) names.push_back(label.label);
  for (const ingest::RowLabel& prediction : files.predictions) names.push_back(prediction.label);
  if (files.probabilities)
    names.insert(names.end(), files.probabilities->classes.begin(), files.probabilities->classes.end());
  return ingest::ClassNames::FromLabels(std::move(names));
}

std::vector<ClassIndex> ByRow(const std::vector<ingest::RowLabel>& labels, const ingest::ClassNames& classes,
                              const RowShare& share) {
  std::vector<ClassIndex> by_row(share.count, kUnlabeled);
  for (const ingest::RowLabel& label : labels) {
    if (label.row < share.first || label.row >= share.first + share.count) continue;
    by_row[label.row - share.first] = classes.Find(label.label);
  }
  return by_row;
}

/// Sets the probabilities, and the most probable class as the prediction. A labeled row without any has its label.
void UseProbabilities(const ProbabilityTable& table, SelectInputs& inputs) {
  const std::size_t classes = inputs.classes.size();
  inputs.predictions.emplace(inputs.labels.size(), kUnlabeled);
  inputs.probabilities.assign(inputs.labels.size() * classes, 0.0F);
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    const std::span<const double> row = table.values.row(i);
    for (std::size_t c = 0; c < row.size(); ++c) {
      const auto index = static_cast<std::size_t>(inputs.classes.Find(table.classes[c]));
      inputs.probabilities[table.rows[i] * classes + index] = static_cast<float>(row[c]);
    }
    const auto best = std::ranges::max_element(row) - row.begin();
    (*inputs.predictions)[table.rows[i]] = inputs.classes.Find(table.classes[static_cast<std::size_t>(best)]);
  }
  for (std::size_t row = 0; row < inputs.labels.size(); ++row) {
    const bool missing = (*inputs.predictions)[row] == kUnlabeled && inputs.labels[row] != kUnlabeled;
    if (missing) inputs.probabilities[row * classes + static_cast<std::size_t>(inputs.labels[row])] = 1;
  }
}

// A labeled row's own label counts more than what a model says of it.
absl::Status CompletePredictions(const SelectOptions& options, SelectInputs& inputs) {
  std::vector<std::string> missing;
  for (std::size_t row = 0; row < inputs.labels.size(); ++row) {
    ClassIndex& prediction = (*inputs.predictions)[row];
    if (inputs.labels[row] != kUnlabeled) {
      prediction = inputs.labels[row];
    } else if (prediction == kUnlabeled) {
      missing.push_back(inputs.ids.TextOf(static_cast<RowIndex>(inputs.share.first + row)));
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
                                      "the pool (strategy ", select::kStrategyWithoutLabels,
                                      "), or is random if 8 labels or more are of one class"));
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

/// The features, normalised; what was learned for it is kept in `inputs`.
absl::StatusOr<std::unique_ptr<kernel::Features>> Normalize(const SelectOptions& options, const std::string& normalize,
                                                            ingest::Pool& pool, SelectInputs& inputs) {
  FULCRUM_ASSIGN_OR_RETURN(const auto steps, ingest::ParseNormalization(normalize));
  const bool was_sparse = pool.features.is_sparse();
  auto normalizer = ingest::Normalizer::FitInPlace(steps, pool.features);
  if (!normalizer.ok()) {
    return absl::Status(normalizer.status().code(), absl::StrCat(options.pool, ": ", normalizer.status().message()));
  }
  NoteConstantColumns(*normalizer, pool, pool.features.cols(), inputs.notes);
  if (was_sparse && !pool.features.is_sparse()) {
    inputs.notes.push_back(absl::StrCat("the z-score made the sparse features dense (", pool.features.rows(), " x ",
                                        pool.features.cols(), "); --normalize unit keeps them sparse"));
  }
  inputs.normalizer = std::make_shared<const ingest::Normalizer>(*std::move(normalizer));
  inputs.feature_names = std::move(pool.feature_names);
  return MakeFeatures(std::move(pool.features));
}

/// Tunes with the rows as they are on the disk, and normalises them as was chosen.
absl::Status TuneMapped(const SelectOptions& options, const Communicator& peers, const LabelFiles& files,
                        MappedSource& mapped, SelectInputs& inputs) {
  if (!TunesClassifier(options)) return absl::OkStatus();
  const MappedFeatureSource source(*mapped.features, mapped.pool);
  if (peers.is_alone()) {
    FULCRUM_ASSIGN_OR_RETURN(inputs.tuned, ChooseSettings(options, source, inputs.labels));
  } else {
    FULCRUM_ASSIGN_OR_RETURN(inputs.tuned, ChooseTogether(peers, [&] {
                               const std::vector<ClassIndex> labels =
                                   ByRow(files.labels, inputs.classes, ShareOfRank(inputs.share.total, 0, 1));
                               return ChooseSettings(options, *SourceOfWholePool(mapped.pool), labels);
                             }));
  }
  // Reads the disk.
  const auto normalizer = source.NormalizerFor(inputs.tuned->chosen.normalize);
  FULCRUM_RETURN_IF_ERROR(AgreeOn(peers, normalizer.status()));
  mapped.features = mapped.features->NormalizedWith(**normalizer);
  return absl::OkStatus();
}

absl::StatusOr<SelectInputs> Combine(const SelectOptions& options, const Communicator& peers, ingest::Pool& pool,
                                     const LabelFiles& files, ingest::ClassNames classes) {
  const std::size_t rows = pool.ids.size();
  SelectInputs inputs{
      .ids = std::move(pool.ids),
      .features = nullptr,
      .tuned = nullptr,
      .feature_names = {},
      .normalizer = nullptr,
      .classes = std::move(classes),
      .share = ShareOfRank(rows, static_cast<std::size_t>(peers.rank()), static_cast<std::size_t>(peers.size())),
      .labels = {},
      .predictions = {},
      .probabilities = {},
      .costs = {},
      .notes = {}};
  inputs.labels = ByRow(files.labels, inputs.classes, inputs.share);
  inputs.labeled = files.labels.size();
  if (inputs.unlabeled() == 0 && !options.stream.on) {
    return absl::OutOfRangeError(
        absl::StrCat("nothing left to select: all ", rows, " rows of ", options.pool, " are labeled"));
  }
  if (!options.predictions.empty()) {
    if (files.probabilities && peers.size() > 1) {
      return absl::InvalidArgumentError(absl::StrCat(options.predictions,
                                                     " has probabilities, which are not divided between processes; run "
                                                     "one process, or give the predicted classes"));
    }
    if (files.probabilities) {
      UseProbabilities(*files.probabilities, inputs);
    } else {
      inputs.predictions = ByRow(files.predictions, inputs.classes, inputs.share);
    }
    FULCRUM_RETURN_IF_ERROR(CompletePredictions(options, inputs));
    NoteClassesWithoutLabels(inputs);
  }
  if (!options.stream.on) FULCRUM_RETURN_IF_ERROR(NoteFirstBatch(options, inputs));
  return inputs;
}

struct ReadFiles {
  std::optional<MappedSource> mapped;
  ingest::Pool pool;
  LabelFiles files;
  std::optional<SelectInputs> inputs;  ///< there once all files were read
};

/// Empty without a cost budget.
absl::StatusOr<std::vector<double>> CostsOf(const SelectOptions& options, ReadFiles& read) {
  std::vector<double> costs;
  if (options.cost_budget <= 0) return costs;
  if (read.mapped) {
    FULCRUM_ASSIGN_OR_RETURN(costs, read.mapped->pool.Costs());
  } else {
    costs = std::move(read.pool.costs);
  }
  if (costs.empty()) {
    return absl::InvalidArgumentError(
        "--cost-budget needs the cost of each row; name the column of the pool with --cost");
  }
  for (std::size_t row = 0; row < costs.size(); ++row) {
    if (costs[row] >= 0 && std::isfinite(costs[row])) continue;
    return absl::InvalidArgumentError(absl::StrCat(options.pool, ": the label of '",
                                                   read.pool.ids.TextOf(static_cast<RowIndex>(row)), "' costs ",
                                                   costs[row], "; costs must be 0 or more"));
  }
  return costs;
}

absl::StatusOr<ReadFiles> ReadAll(const SelectOptions& options, const Communicator& peers, Progress& progress,
                                  StageClock& clock) {
  const auto on_rows = [&](std::size_t rows) { progress.Update("read", rows, 0); };
  ReadFiles read;
  ingest::Pool& pool = read.pool;
  FULCRUM_ASSIGN_OR_RETURN(read.mapped, clock.Measure("read", [&] { return MapPool(options, peers); }));
  if (read.mapped) {
    pool.ids = std::move(read.mapped->ids);
    pool.feature_names = std::move(read.mapped->feature_names);
  } else {
    FULCRUM_ASSIGN_OR_RETURN(const std::size_t total, MemoryHere(options));
    const PoolMemory memory = MemoryForPool(total);
    ingest::PoolOptions reading = {.keep_labels = false,
                                   .keep_payloads = options.cost_budget > 0,
                                   .on_progress = on_rows,
                                   .columns = options.columns};
    reading.limits.max_memory_bytes = static_cast<std::int64_t>(memory.bytes);
    reading.extra_bytes_per_row = memory.bytes_per_row;
    FULCRUM_ASSIGN_OR_RETURN(pool, clock.Measure("read", [&] { return LoadAnyPool(options.pool, reading); }));
  }
  FULCRUM_ASSIGN_OR_RETURN(read.files, clock.Measure("read", [&] { return LoadLabelFiles(options, pool.ids); }));
  FULCRUM_ASSIGN_OR_RETURN(ingest::ClassNames classes, CollectClasses(read.files));
  FULCRUM_ASSIGN_OR_RETURN(read.inputs, Combine(options, peers, pool, read.files, std::move(classes)));
  FULCRUM_ASSIGN_OR_RETURN(read.inputs->costs, CostsOf(options, read));
  return absl::StatusOr<ReadFiles>(std::move(read));
}

/// What all processes must have read alike: the pool, by its checksums or its numbers, and the labels. "pool-labels".
std::string Fingerprint(const ReadFiles& read) {
  Checksum of_pool, of_labels;
  const auto add = [](const auto& value, Checksum& sum) {
    sum.Add({reinterpret_cast<const char*>(&value), sizeof(value)});
  };
  add(read.pool.ids.size(), of_pool);
  if (read.mapped) {
    for (const storage::PoolPart& part : read.mapped->pool.manifest().parts) {
      for (const storage::PoolBlockRecord& block : part.blocks) add(block.checksum, of_pool);
    }
  } else if (!read.pool.features.is_sparse()) {
    for (std::size_t row = 0; row < read.pool.features.rows(); ++row) {
      const std::span<const double> values = read.pool.features.dense().row(row);
      of_pool.Add({reinterpret_cast<const char*>(values.data()), values.size_bytes()});
    }
  }
  for (const std::vector<ingest::RowLabel>* const labels : {&read.files.labels, &read.files.predictions}) {
    for (const ingest::RowLabel& label : *labels) {
      add(label.row, of_labels);
      add(label.label.size(), of_labels);
      of_labels.Add(label.label);
    }
  }
  return absl::StrCat(absl::Hex(of_pool.value()), "-", absl::Hex(of_labels.value()));
}

}  // namespace

absl::StatusOr<SelectInputs> LoadSelectInputs(const SelectOptions& options, const Communicator& peers,
                                              Progress& progress, StageClock& clock) {
  progress.Update("read", 0, 0);
  absl::StatusOr<ReadFiles> read = ReadAll(options, peers, progress, clock);
  FULCRUM_RETURN_IF_ERROR(AgreeOn(peers, read.status()));
  if (!peers.is_alone()) FULCRUM_RETURN_IF_ERROR(CheckSameInputs(peers, Fingerprint(*read)));
  std::optional<MappedSource> mapped = std::move(read->mapped);
  ingest::Pool pool = std::move(read->pool);
  const LabelFiles files = std::move(read->files);
  SelectInputs inputs = *std::move(read->inputs);
  if (mapped) {
    FULCRUM_RETURN_IF_ERROR(clock.Measure("tune", [&] { return TuneMapped(options, peers, files, *mapped, inputs); }));
    NoteConstantColumns(mapped->features->normalizer(), pool, mapped->features->dims(), inputs.notes);
    inputs.normalizer = std::make_shared<const ingest::Normalizer>(mapped->features->normalizer());
    inputs.feature_names = std::move(pool.feature_names);
    inputs.features = std::move(mapped->features);
    return inputs;
  }
  std::string normalize = options.normalize;
  if (TunesClassifier(options)) {
    progress.Update("tune", 0, 0);
    MakeDenseIfWorthwhile(pool.features);
    const std::vector<ClassIndex> labels = ByRow(files.labels, inputs.classes, ShareOfRank(inputs.share.total, 0, 1));
    FULCRUM_ASSIGN_OR_RETURN(inputs.tuned, clock.Measure("tune", [&] {
      return ChooseTogether(peers, [&] { return ChooseSettings(options, MemoryFeatureSource(pool.features), labels); });
    }));
    normalize = inputs.tuned->chosen.normalize;
  }
  progress.Update("normalize", 0, 0);
  auto features = clock.Measure("normalize", [&] { return Normalize(options, normalize, pool, inputs); });
  FULCRUM_RETURN_IF_ERROR(AgreeOn(peers, features.status()));
  inputs.features = *std::move(features);
  if (!peers.is_alone()) FULCRUM_RETURN_IF_ERROR(AgreeOn(peers, KeepShare(inputs)));
  return inputs;
}

}  // namespace fulcrum::pipeline
