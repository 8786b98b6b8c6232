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
#include "stages/core/parallel.h"
#include "stages/core/random.h"
#include "stages/core/status_macros.h"
#include "stages/kernel/kernel_function.h"
#include "stages/linalg/blas.h"

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

constexpr char kBins[] = "bins";
// Of the sample, for the distances of each fold when columns are weighed.
constexpr std::size_t kSampleRowsPerFold = 100;

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

double MeanSquaredLengthOf(ConstMatrixView rows) {
  double sum = 0;
  for (std::size_t i = 0; i < rows.rows(); ++i) sum += linalg::Dot(rows.row(i), rows.row(i));
  return sum > 0 ? sum / static_cast<double>(rows.rows()) : 1;
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

double MedianOfRows(ConstMatrixView rows) {
  Matrix<double> dots(rows.rows(), rows.rows());
  linalg::Gemm(linalg::Transpose::kNo, linalg::Transpose::kYes, 1, rows, rows, 0, dots.view());
  return MedianDistance(dots.view(), 0);
}

/// The rows with every column multiplied by the factor that its relevance stands for.
Matrix<double> WeighColumns(ConstMatrixView rows, const std::string& relevance) {
  std::vector<double> factors;
  for (const char digit : relevance) factors.push_back(ingest::RelevanceFactor(digit));
  Matrix<double> weighed = Matrix<double>::CopyOf(rows);
  for (std::size_t row = 0; row < weighed.rows(); ++row) {
    const std::span<double> values = weighed.row(row);
    for (std::size_t col = 0; col < values.size(); ++col) values[col] *= factors[col];
  }
  return weighed;
}

/// Of rows with these inner products: an rbf kernel of each width.
std::vector<Matrix<double>> RbfKernels(ConstMatrixView dots, double median) {
  std::vector<double> norms;
  for (std::size_t i = 0; i < dots.rows(); ++i) norms.push_back(dots(i, i));
  std::vector<Matrix<double>> kernels;
  for (const double width : kWidths) {
    kernels.push_back(Matrix<double>::CopyOf(dots));
    kernel::ApplyKernelToDots(RbfOf(width * median), norms, norms, kernels.back().view());
  }
  return kernels;
}

/// All settings, with the kernel matrices of the labeled rows.
class Candidates {
 public:
  Candidates(std::size_t labels, std::uint64_t seed)
      : classifier_(*classify::FindClassifier(labels > kMostLogisticLabels ? "svm" : "logistic")),
        penalties_(labels > kMostLogisticLabels ? kSvmPenalties : kLogisticPenalties),
        seed_(seed) {}

  /// All settings with one normalisation. FailedPrecondition if the pool cannot be normalised in this way; values that
  /// overflow are left out in silence.
  absl::Status Add(const FeatureSource& source, const std::string& normalize, const TuningRows& rows) {
    FULCRUM_ASSIGN_OR_RETURN(const auto normalizer, source.NormalizerFor(normalize));
    FULCRUM_ASSIGN_OR_RETURN(ingest::PoolFeatures copy,
                             MemoryFeatureSource(rows.features).RawRows(AllRows(rows.features.rows())));
    normalizer->Apply(copy);
    const Matrix<double> bins = normalize == kBins ? Matrix<double>::CopyOf(copy.dense().view()) : Matrix<double>();
    const std::unique_ptr<kernel::Features> features = MakeFeatures(std::move(copy));
    const RowList all = AllRows(features->rows());
    const kernel::KernelFunction linear{.type = kernel::KernelType::kLinear};
    if (!kernel::CheckKernelValues(linear, features->squared_norms(), all).ok()) return absl::OkStatus();
    kernel::RowSetKernel dots(linear, *features);
    dots.Update(all);
    const std::size_t labeled = rows.labels.size();
    const ConstMatrixView of_labels = dots.matrix().Block(0, 0, labeled, labeled);
    const double length = MeanSquaredLength(dots.matrix(), labeled);
    medians_.emplace_back(normalize, MedianDistance(dots.matrix(), labeled));
    std::vector<Matrix<double>> kernels = RbfKernels(of_labels, medians_.back().second);
    kernels.push_back(Matrix<double>::CopyOf(of_labels));
    for (std::size_t part = 0; part < kernels.size(); ++part) {
      grams_.push_back(std::move(kernels[part]));
      AddPenalties(part, grams_.size() - 1, IsLinear(part) ? length : 1, length);
    }
    if (bins.rows() > 0) AddRelevant(bins.view(), rows);
    return absl::OkStatus();
  }

  /// The best first.
  std::vector<ClassifierChoice> Compare(const TuningRows& rows, bool weigh_classes) && {
    std::vector<ConstMatrixView> views;
    for (const Matrix<double>& gram : grams_) views.push_back(gram.view());
    const std::vector<classify::TrialScore> scores =
        classify::CrossValidate(views, trials_, rows.labels, seed_, rows.weights);
    std::vector<double> losses;
    for (const classify::TrialScore& score : scores) losses.push_back(score.log_loss);
    losses = classify::ShrinkToParts(losses, parts_, rows.labels.size(), classify::ChanceLoss(rows.labels));
    for (std::size_t i = 0; i < scores.size(); ++i) {
      choices_[i].log_loss = losses[i];
      choices_[i].accuracy = scores[i].accuracy;
    }
    if (weigh_classes) {
      const auto best = static_cast<std::size_t>(std::ranges::min_element(losses) - losses.begin());
      WeighClasses(views, rows, scores[best], best);
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
  /// `bins` with its columns weighed by their relevance: in cross-validation according to the labels that are not held
  /// out, otherwise according to all. `bins` are the labeled rows and the sample.
  void AddRelevant(ConstMatrixView bins, const TuningRows& rows) {
    const ConstMatrixView labeled = bins.Rows(0, rows.labels.size());
    const ConstMatrixView sample = bins.Rows(labeled.rows(), bins.rows() - labeled.rows());
    const ConstMatrixView first_of_sample = sample.Rows(0, std::min(sample.rows(), kSampleRowsPerFold));
    std::vector<std::vector<std::size_t>> divisions = classify::LabelFolds(rows.labels, seed_);
    const std::size_t folds = divisions.size() * classify::kLabelFolds, first_gram = grams_.size();
    grams_.resize(first_gram + (std::size(kWidths) + 1) * folds);
    ParallelForBlocks(folds, 1, [&](std::size_t index, std::size_t) {
      std::vector<double> weights = rows.weights.empty() ? std::vector<double>(labeled.rows(), 1.0) : rows.weights;
      for (std::size_t i = 0; i < weights.size(); ++i) {
        if (divisions[index / classify::kLabelFolds][i] == index % classify::kLabelFolds) weights[i] = 0;
      }
      const std::string relevance = ingest::RelevanceOf(labeled, rows.labels, weights);
      const Matrix<double> own = WeighColumns(labeled, relevance), others = WeighColumns(first_of_sample, relevance);
      Matrix<double> dots(own.rows(), own.rows());
      linalg::Gemm(linalg::Transpose::kNo, linalg::Transpose::kYes, 1, own.view(), own.view(), 0, dots.view());
      std::vector<Matrix<double>> kernels = RbfKernels(dots.view(), MedianOfRows(others.view()));
      const double length = MeanSquaredLengthOf(others.view());
      for (std::size_t i = 0; i < dots.rows(); ++i) {
        for (double& value : dots.row(i)) value /= length;
      }
      kernels.push_back(std::move(dots));
      for (std::size_t part = 0; part < kernels.size(); ++part) {
        grams_[first_gram + part * folds + index] = std::move(kernels[part]);
      }
    });
    const std::string relevance = ingest::RelevanceOf(labeled, rows.labels, rows.weights);
    const Matrix<double> weighed = WeighColumns(sample, relevance);
    medians_.emplace_back(absl::StrCat(kBins, "@", relevance), MedianOfRows(weighed.view()));
    for (std::size_t part = 0; part <= std::size(kWidths); ++part) {
      AddPenalties(part, first_gram + part * folds, 1, MeanSquaredLengthOf(weighed.view()));
      for (std::size_t i = 1; i <= penalties_.size(); ++i) trials_[trials_.size() - i].gram_per_fold = true;
    }
  }

  /// Gives the classes of a setting weights if that makes its loss smaller. Only of the best one: weights for all
  /// settings would be three times the work, and three times the candidates.
  void WeighClasses(std::span<const ConstMatrixView> grams, const TuningRows& rows, const classify::TrialScore& without,
                    std::size_t index) {
    ClassifierChoice& choice = choices_[index];
    classify::TrialScore best = without;
    for (const double exponent : kBalances) {
      std::vector<double> weights = classify::BalancingWeights(rows.labels, exponent);
      if (std::ranges::all_of(weights, [](double weight) { return weight == 1; })) continue;
      classify::Trial trial = trials_[index];
      trial.class_weights = weights;
      const classify::TrialScore score =
          classify::CrossValidate(grams, std::span(&trial, 1), rows.labels, seed_, rows.weights).front();
      if (!(score.log_loss < best.log_loss)) continue;
      best = score;
      choice.class_weights = std::move(weights);
    }
    choice.log_loss += best.log_loss - without.log_loss;
    choice.accuracy = best.accuracy;
  }

  static bool IsLinear(std::size_t kernel_part) { return kernel_part == std::size(kWidths); }

  /// Of the last normalisation with a kernel: one of kWidths, or the linear one, whose rows have a mean squared length.
  /// The penalties are divided by `scale` for the matrix.
  void AddPenalties(std::size_t kernel_part, std::size_t gram, double scale, double length) {
    const bool is_linear = IsLinear(kernel_part);
    const auto& [normalize, median] = medians_.back();
    for (std::size_t i = 0; i < penalties_.size(); ++i) {
      const double penalty = penalties_[i];
      trials_.push_back({.classifier = classifier_, .gram = gram, .c = penalty / scale});
      parts_.push_back({medians_.size(), kernel_part, i});
      choices_.push_back({.normalize = normalize,
                          .classifier = std::string(classifier_->name),
                          .kernel = is_linear ? kernel::KernelFunction{.type = kernel::KernelType::kLinear}
                                              : RbfOf(kWidths[kernel_part] * median),
                          .c = is_linear ? penalty / length : penalty});
    }
  }

  const classify::ClassifierEntry* classifier_;
  std::span<const double> penalties_;
  std::uint64_t seed_;
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
  Candidates candidates(count, seed);
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
    const std::vector<ClassifierChoice> best = std::move(candidates).Compare(rows, weigh_classes);
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

}  // namespace fulcrum::pipeline
