#include "pipeline/round/tuning.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "pipeline/round/pool_source.h"
#include "stages/classify/classifier.h"
#include "stages/core/random.h"
#include "stages/core/status_macros.h"
#include "stages/kernel/kernel_function.h"

namespace fulcrum::pipeline {
namespace {

// Fewer labels than this say too little about settings.
constexpr std::size_t kLeastLabels = 8;
// More would cost seconds and change little.
constexpr std::size_t kMostLabels = 800;
constexpr std::size_t kSampleRows = 300;
constexpr double kGrowthToTuneAgain = 1.3;
constexpr std::size_t kRunnersUp = 3;

// rbf widths: sigma^2 as multiples of the median squared distance.
constexpr double kWidths[] = {0.35, 1, 3};
// Penalties; those of linear kernels are for rows of a mean squared length of 1.
constexpr double kLogisticPenalties[] = {3, 30, 300}, kSvmPenalties[] = {1, 10, 100};
// With more labels than this the classifier is the SVM. Every label is part of a logistic model, and all its
// coefficients change with every label, so that no round after it could keep the kernel columns of the round before.
constexpr std::size_t kMostLogisticLabels = 1000;
// Of weights of classes: half of the way to the same total weight for every class, and all of it.
constexpr double kBalances[] = {0.5, 1};
// What is used before settings can be compared.
constexpr double kDefaultWidth = 1, kDefaultPenalty = 30;

// Non-negative features with more zeros than this share may be counts of words.
constexpr double kZerosOfCounts = 0.5;
// Dense rows with so many zeros and columns are texts, if they are counts; above the second share, whatever they are.
constexpr double kZerosOfTexts = 0.8, kZerosOfWeightedTexts = 0.95;
constexpr std::size_t kFewestWords = 200;
// With more columns than this, quantiles cost more than they gain: each column says little.
constexpr std::size_t kMostQuantileColumns = 100;
// A column becomes up to 15, so bins are for pools of a moderate size.
constexpr std::size_t kMostBinnedBytes = std::size_t{256} << 20;
// As many different whole numbers as a column of categories has.
constexpr std::size_t kFewestCategories = 3, kMostCategories = 10;

/// The labeled rows and a sample of the pool, as they are in the files.
struct TuningRows {
  ingest::PoolFeatures features;
  std::vector<ClassIndex> labels;  ///< of the first rows; the sample follows
  std::vector<double> weights;     ///< of the labels; empty: all weigh 1
};

RowList LabeledRowsOf(std::span<const ClassIndex> labels, std::uint64_t seed) {
  RowList rows;
  for (std::size_t row = 0; row < labels.size(); ++row) {
    if (labels[row] != kUnlabeled) rows.push_back(static_cast<RowIndex>(row));
  }
  if (rows.size() <= kMostLabels) return rows;
  Random::Fork(seed, 1).Shuffle(std::span(rows));
  rows.resize(kMostLabels);
  std::sort(rows.begin(), rows.end());
  return rows;
}

RowList SampleOf(std::size_t rows, std::uint64_t seed) {
  if (rows <= kSampleRows) return AllRows(rows);
  RowList sample(kSampleRows);
  Random random = Random::Fork(seed, 2);
  for (RowIndex& row : sample) row = static_cast<RowIndex>(random.Below(rows));
  return sample;
}

absl::StatusOr<TuningRows> ReadRows(const FeatureSource& source, std::span<const ClassIndex> labels, std::uint64_t seed,
                                    std::span<const double> weights) {
  RowList rows = LabeledRowsOf(labels, seed);
  TuningRows read;
  for (const RowIndex row : rows) {
    read.labels.push_back(labels[row]);
    if (!weights.empty()) read.weights.push_back(weights[row]);
  }
  const RowList sample = SampleOf(source.learned_rows(), seed);
  rows.insert(rows.end(), sample.begin(), sample.end());
  FULCRUM_ASSIGN_OR_RETURN(read.features, source.RawRows(rows));
  return read;
}

/// What the values of features say about where they come from.
struct ValueStatistics {
  bool negative = false;
  double zeros = 0;         ///< share of all values
  double small_counts = 0;  ///< share of the other values that are 1, 2 or 3

  bool look_like_counts() const { return !negative && zeros > kZerosOfCounts; }
  /// Dense rows that are texts. The pixels of an image have many zeros too, but few other values are small numbers.
  bool look_like_texts() const {
    return !negative && ((zeros > kZerosOfTexts && small_counts > 0.5) || zeros > kZerosOfWeightedTexts);
  }
};

ValueStatistics StatisticsOf(const ingest::PoolFeatures& features) {
  std::size_t others = 0, counts = 0;
  ValueStatistics found;
  const auto look = [&](double value) {
    if (value == 0) return;
    ++others;
    counts += value == 1 || value == 2 || value == 3 ? 1 : 0;
    found.negative = found.negative || value < 0;
  };
  if (features.is_sparse()) {
    for (const double value : features.sparse().values) look(value);
  } else {
    for (std::size_t row = 0; row < features.rows(); ++row) {
      for (const double value : features.dense().row(row)) look(value);
    }
  }
  const double cells = static_cast<double>(features.rows()) * static_cast<double>(features.cols());
  if (cells > 0) found.zeros = 1 - static_cast<double>(others) / cells;
  if (others > 0) found.small_counts = static_cast<double>(counts) / static_cast<double>(others);
  return found;
}

/// Whether half of the columns have 3 to 10 different whole numbers, as categories that are coded by numbers do.
bool HasCategories(ConstMatrixView features) {
  std::size_t columns = 0;
  for (std::size_t col = 0; col < features.cols(); ++col) {
    std::set<double> values;
    for (std::size_t row = 0; row < features.rows() && values.size() <= kMostCategories; ++row) {
      const double value = features(row, col);
      values.insert(value == std::round(value) ? value : std::numeric_limits<double>::infinity());
    }
    columns += values.size() >= kFewestCategories && values.size() <= kMostCategories && std::isfinite(*values.rbegin())
                   ? 1
                   : 0;
  }
  return 2 * columns >= features.cols();
}

/// Ways to normalise the features, and what is used before they can be compared.
struct Normalizations {
  std::vector<std::string> names;
  bool texts = false;  ///< the default is a linear kernel, instead of an rbf kernel
};

/// The first one is the default. `rows` is how many rows the pool has.
Normalizations NormalizationsFor(const ingest::PoolFeatures& features, std::size_t rows) {
  const ValueStatistics values = StatisticsOf(features);
  const bool sparse = features.is_sparse();
  if (!sparse && features.cols() >= kFewestWords && values.look_like_texts()) {
    // A deviation of a rare word is tiny, so a z-score makes its single occurrences the largest values of all.
    return {{"tfidf,unit", "unit", "none", "zscore,unit"}, true};
  }
  std::vector<std::string> all;
  if (sparse) {
    all = {"unit", "none"};
  } else {
    all = {"robust", "zscore", "zscore,unit", "none"};
  }
  if (!sparse && HasCategories(features.dense().view())) all.push_back("onehot");
  const std::size_t binned_bytes = sizeof(double) * ingest::QuantileColumns::kMostBins * features.cols() * rows;
  if (!sparse && features.cols() <= kMostQuantileColumns) {
    all.push_back("quantile");
    if (binned_bytes <= kMostBinnedBytes) all.push_back("bins");
  }
  if (values.look_like_counts()) all.insert(sparse ? all.begin() : all.end(), "tfidf,unit");
  return {std::move(all), sparse};
}

double MedianDistance(ConstMatrixView dots, std::size_t first) {
  std::vector<double> distances;
  for (std::size_t i = first; i < dots.rows(); ++i) {
    for (std::size_t j = first; j < i; ++j)
      distances.push_back(std::max(dots(i, i) + dots(j, j) - 2 * dots(i, j), 0.0));
  }
  if (distances.empty()) return 1;
  const auto middle = distances.begin() + static_cast<std::ptrdiff_t>(distances.size() / 2);
  std::nth_element(distances.begin(), middle, distances.end());
  if (*middle > 0) return *middle;
  const double mean = std::accumulate(distances.begin(), distances.end(), 0.0) / static_cast<double>(distances.size());
  return mean > 0 ? mean : 1;
}

double MeanSquaredLength(ConstMatrixView dots, std::size_t first) {
  double sum = 0;
  for (std::size_t i = first; i < dots.rows(); ++i) sum += dots(i, i);
  const double mean = dots.rows() > first ? sum / static_cast<double>(dots.rows() - first) : 0;
  return mean > 0 ? mean : 1;
}

kernel::KernelFunction RbfOf(double squared_width) {
  return {.type = kernel::KernelType::kRbf, .sigma = std::sqrt(squared_width)};
}

/// All settings with one normalisation, with the kernel matrices of the labeled rows.
class Candidates {
 public:
  explicit Candidates(std::size_t labels)
      : classifier_(*classify::FindClassifier(labels > kMostLogisticLabels ? "svm" : "logistic")),
        penalties_(labels > kMostLogisticLabels ? kSvmPenalties : kLogisticPenalties) {}

  /// FailedPrecondition if the pool cannot be normalised in this way; values that overflow are left out in silence.
  absl::Status Add(const FeatureSource& source, const std::string& normalize, const TuningRows& rows) {
    FULCRUM_ASSIGN_OR_RETURN(const auto normalizer, source.NormalizerFor(normalize));
    FULCRUM_ASSIGN_OR_RETURN(ingest::PoolFeatures copy,
                             MemoryFeatureSource(rows.features).RawRows(AllRows(rows.features.rows())));
    normalizer->Apply(copy);
    const std::unique_ptr<kernel::Features> features = MakeFeatures(std::move(copy));
    const RowList all = AllRows(features->rows());
    const kernel::KernelFunction linear{.type = kernel::KernelType::kLinear};
    if (!kernel::CheckKernelValues(linear, features->squared_norms(), all).ok()) return absl::OkStatus();
    kernel::RowSetKernel dots(linear, *features);
    dots.Update(all);
    const std::size_t labeled = rows.labels.size();
    const double median = MedianDistance(dots.matrix(), labeled);
    medians_.emplace_back(normalize, median);
    std::size_t part = 1;
    for (const double width : kWidths) {
      const kernel::KernelFunction rbf = RbfOf(width * median);
      Matrix<double> gram = Matrix<double>::CopyOf(dots.matrix().Block(0, 0, labeled, labeled));
      const auto norms = features->squared_norms().first(labeled);
      kernel::ApplyKernelToDots(rbf, norms, norms, gram.view());
      AddPenalties(normalize, rbf, part++, std::move(gram), 1);
    }
    AddPenalties(normalize, linear, 0, Matrix<double>::CopyOf(dots.matrix().Block(0, 0, labeled, labeled)),
                 MeanSquaredLength(dots.matrix(), labeled));
    return absl::OkStatus();
  }

  /// The best first.
  std::vector<ClassifierChoice> Compare(const TuningRows& rows, std::uint64_t seed, bool weigh_classes) && {
    std::vector<ConstMatrixView> views;
    for (const Matrix<double>& gram : grams_) views.push_back(gram.view());
    const std::vector<classify::TrialScore> scores =
        classify::CrossValidate(views, trials_, rows.labels, seed, rows.weights);
    std::vector<double> losses;
    for (const classify::TrialScore& score : scores) losses.push_back(score.log_loss);
    losses = classify::ShrinkToParts(losses, parts_, rows.labels.size(), classify::ChanceLoss(rows.labels));
    for (std::size_t i = 0; i < scores.size(); ++i) {
      choices_[i].log_loss = losses[i];
      choices_[i].accuracy = scores[i].accuracy;
    }
    if (weigh_classes) {
      const auto best = static_cast<std::size_t>(std::ranges::min_element(losses) - losses.begin());
      WeighClasses(views, rows, seed, scores[best], best);
    }
    // Stable: the earlier candidate wins a tie.
    std::ranges::stable_sort(choices_, {}, &ClassifierChoice::log_loss);
    return std::move(choices_);
  }

  bool empty() const { return choices_.empty(); }

  /// The first one that this pool can be normalised in. Not if there are no candidates.
  const std::string& first_normalization() const { return medians_.front().first; }

  double MedianOf(const std::string& normalize) const {
    const auto found = std::ranges::find(medians_, normalize, &std::pair<std::string, double>::first);
    return found == medians_.end() ? 1 : found->second;
  }

 private:
  /// Gives the classes of a setting weights if that makes its loss smaller. Only of the best one: weights for all
  /// settings would be three times the work, and three times the candidates.
  void WeighClasses(std::span<const ConstMatrixView> grams, const TuningRows& rows, std::uint64_t seed,
                    const classify::TrialScore& without, std::size_t index) {
    ClassifierChoice& choice = choices_[index];
    classify::TrialScore best = without;
    for (const double exponent : kBalances) {
      std::vector<double> weights = classify::BalancingWeights(rows.labels, exponent);
      if (std::ranges::all_of(weights, [](double weight) { return weight == 1; })) continue;
      classify::Trial trial = trials_[index];
      trial.class_weights = weights;
      const classify::TrialScore score =
          classify::CrossValidate(grams, std::span(&trial, 1), rows.labels, seed, rows.weights).front();
      if (!(score.log_loss < best.log_loss)) continue;
      best = score;
      choice.class_weights = std::move(weights);
    }
    choice.log_loss += best.log_loss - without.log_loss;
    choice.accuracy = best.accuracy;
  }

  void AddPenalties(const std::string& normalize, const kernel::KernelFunction& kernel, std::size_t kernel_part,
                    Matrix<double> gram, double scale) {
    for (std::size_t i = 0; i < penalties_.size(); ++i) {
      const double penalty = penalties_[i];
      trials_.push_back({classifier_, grams_.size(), penalty / scale});
      parts_.push_back({medians_.size(), kernel_part, i});
      choices_.push_back({.normalize = normalize,
                          .classifier = std::string(classifier_->name),
                          .kernel = kernel,
                          .c = penalty / scale});
    }
    grams_.push_back(std::move(gram));
  }

  const classify::ClassifierEntry* classifier_;
  std::span<const double> penalties_;
  std::vector<std::pair<std::string, double>> medians_;
  std::vector<Matrix<double>> grams_;
  std::vector<classify::Trial> trials_;
  std::vector<classify::SettingParts> parts_;  // parallel to trials_: normalisation, kernel, penalty
  std::vector<ClassifierChoice> choices_;      // parallel to trials_
};

std::size_t ClassesIn(std::span<const ClassIndex> labels) {
  RowList seen;
  for (const ClassIndex label : labels) {
    if (label != kUnlabeled) seen.push_back(static_cast<RowIndex>(label));
  }
  std::sort(seen.begin(), seen.end());
  return static_cast<std::size_t>(std::unique(seen.begin(), seen.end()) - seen.begin());
}

std::size_t CountLabels(std::span<const ClassIndex> labels) {
  return labels.size() - static_cast<std::size_t>(std::ranges::count(labels, kUnlabeled));
}

bool EnoughToCompare(std::size_t labels, std::size_t classes) {
  return classes >= 2 && labels >= std::max(kLeastLabels, 2 * classes);
}

/// Before settings can be compared.
ClassifierChoice DefaultChoice(const std::string& normalize, bool linear, double median) {
  return {
      .normalize = normalize,
      .classifier = "logistic",
      .kernel = linear ? kernel::KernelFunction{.type = kernel::KernelType::kLinear} : RbfOf(kDefaultWidth * median),
      .c = kDefaultPenalty};
}

}  // namespace

absl::StatusOr<TunedSettings> Tune(const FeatureSource& source, std::span<const ClassIndex> labels, std::uint64_t seed,
                                   std::span<const double> weights, bool weigh_classes) {
  FULCRUM_ASSIGN_OR_RETURN(const TuningRows rows, ReadRows(source, labels, seed, weights));
  const std::size_t count = CountLabels(labels), classes = ClassesIn(labels);
  const bool compare = EnoughToCompare(count, classes);
  const Normalizations normalizations = NormalizationsFor(rows.features, source.rows());
  Candidates candidates(count);
  for (const std::string& normalize : normalizations.names) {
    const absl::Status added = candidates.Add(source, normalize, rows);
    if (!added.ok() && !absl::IsFailedPrecondition(added)) return added;
    if (!compare && !candidates.empty()) break;
  }
  if (candidates.empty()) {
    return absl::InvalidArgumentError(
        "the features are too large for a classifier (their squares overflow); scale them down");
  }
  TunedSettings settings;
  if (!compare) {
    const std::string& normalize = candidates.first_normalization();
    settings.chosen = DefaultChoice(normalize, normalizations.texts, candidates.MedianOf(normalize));
    settings.reason = "too few labels to compare settings; these are the best on average";
  } else {
    const std::vector<ClassifierChoice> best = std::move(candidates).Compare(rows, seed, weigh_classes);
    settings.chosen = best.front();
    settings.labels = count;
    settings.classes = classes;
    settings.runners_up.assign(best.begin() + 1, best.begin() + 1 + std::min(kRunnersUp, best.size() - 1));
    settings.reason = absl::StrFormat(
        "smallest log loss of %d settings on held-out labels, moved towards the mean of "
        "settings that share a part",
        best.size());
  }
  settings.leverage_kernel = RbfOf(candidates.MedianOf(settings.chosen.normalize));
  return settings;
}

bool ShouldTuneAgain(const TunedSettings& settings, std::span<const ClassIndex> labels) {
  const std::size_t count = CountLabels(labels), classes = ClassesIn(labels);
  if (!EnoughToCompare(count, classes)) return false;
  if (classes > settings.classes) return true;
  return static_cast<double>(count) >= kGrowthToTuneAgain * static_cast<double>(settings.labels);
}

void UseChoice(const ClassifierChoice& choice, std::size_t class_count, classify::SvmParameters& parameters) {
  parameters.classifier = choice.classifier;
  parameters.kernel = choice.kernel;
  parameters.c = choice.c;
  if (!parameters.class_weights.empty() || choice.class_weights.empty()) return;
  parameters.class_weights = choice.class_weights;
  parameters.class_weights.resize(class_count, 1.0);
}

std::string DescribeChoice(const ClassifierChoice& choice) {
  return absl::StrFormat("%s, %s, %s, C %g%s", choice.normalize, choice.classifier,
                         kernel::DescribeKernel(choice.kernel), choice.c,
                         choice.class_weights.empty() ? "" : ", classes weighted");
}

}  // namespace fulcrum::pipeline
