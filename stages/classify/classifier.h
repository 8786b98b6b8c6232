// The classifiers of a pool behind one interface, and their registry (classifier_registry.cc).
//
// A Classifier is trained again and again as labels are added, and keeps what makes the next training cheap. Whatever
// it is, its model is a kernel expansion per pair of classes (svm_model.h), so prediction, files and exports are the
// same for all of them. A classifier is not thread-safe; separate ones are independent. Adding one is a file and a line
// of the registry.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "stages/classify/svm_model.h"
#include "stages/core/matrix.h"
#include "stages/core/rows.h"
#include "stages/kernel/features.h"
#include "stages/kernel/kernel_function.h"

namespace fulcrum::classify {

/// Statistics of the last training.
struct TrainingReport {
  bool warm = false;  ///< it began from an earlier solution
  std::size_t labels = 0;
  std::size_t iterations = 0;
  double objective = 0;
  std::size_t support_vectors = 0;
  bool converged = true;
  kernel::RowSetKernel::UpdateStats kernel_update = {};
};

class Classifier {
 public:
  virtual ~Classifier() = default;

  /// `labels` has one entry per pool row, kUnlabeled for unlabeled rows. Returns FailedPrecondition if fewer than two
  /// classes have labels. The model may have no probabilities until FitProbabilities is called.
  virtual absl::StatusOr<SvmModel> Train(std::span<const ClassIndex> labels, std::size_t class_count) = 0;

  /// Weights of the examples in the next trainings, by pool row, 0 or more; empty: all weigh 1. An example of weight w
  /// costs w times as much if it is misclassified as one of weight 1.
  void UseWeights(std::span<const double> weights) { weights_.assign(weights.begin(), weights.end()); }

  /// Fits the probabilities of a model returned by the last Train, by cross-validation.
  virtual absl::Status FitProbabilities(SvmModel& model) const = 0;

  /// Replaces the features by the same features with rows appended; the next training is warm. They must outlive the
  /// classifier.
  virtual void MoveTo(const kernel::Features& grown) = 0;

  /// The next training is cold.
  virtual void Reset() = 0;

  virtual const TrainingReport& report() const = 0;

 protected:
  double WeightOf(RowIndex row) const { return weights_.empty() ? 1 : weights_[row]; }

 private:
  std::vector<double> weights_;
};

/// Labeled examples within a kernel matrix, for cross-validation.
struct GramExamples {
  ConstMatrixView gram;
  std::span<const std::uint32_t> positions;  ///< of the examples, in the matrix
  std::span<const std::size_t> classes;      ///< by position in the matrix, from 0 to class_count - 1
  std::size_t class_count = 0;
  std::span<const double> costs;  ///< by class: the weight of the class, and the penalty if it is the same for all
  /// By position in the matrix: how much an example counts, in training and where it is held out. Empty: all weigh 1.
  std::span<const double> weights = {};

  double WeightOf(std::uint32_t position) const { return weights.empty() ? 1 : weights[position]; }
};

/// The score of a class without examples.
inline constexpr double kAbsentScore = -50;

/// One kind of classifier.
struct ClassifierEntry {
  std::string_view name;
  std::string_view description;
  /// Keeps a reference to the features, which must outlive it. Train checks the parameters.
  std::unique_ptr<Classifier> (*make)(const SvmParameters& parameters, const kernel::Features& features);
  /// Scores of other examples of the matrix, held_out x class_count, for each of the penalties, by which the costs are
  /// multiplied. The largest is the predicted class. Ascending penalties are cheapest.
  std::vector<Matrix<double>> (*score)(const GramExamples& examples, std::span<const std::uint32_t> held_out,
                                       std::span<const double> penalties);
  /// The softmax of so many times the scores is closest to the truth as a rule.
  double usual_temperature = 1;
};

/// All classifiers; the first is the default of explicit settings.
std::span<const ClassifierEntry> Classifiers();

/// InvalidArgument, with the names there are, if there is no such classifier.
absl::StatusOr<const ClassifierEntry*> FindClassifier(std::string_view name);

/// The classifier that the parameters name. It keeps a reference to `features`, which must outlive it. A name that is
/// not in the registry is an error of its first training.
std::unique_ptr<Classifier> MakeClassifier(const SvmParameters& parameters, const kernel::Features& features);

/// What every classifier checks before it trains: the parameters, the range of the labels, and that the kernel of the
/// labeled rows is finite. Returns the classes with labels, ascending.
absl::StatusOr<std::vector<ClassIndex>> CheckTraining(const SvmParameters& parameters, const kernel::Features& features,
                                                      std::span<const ClassIndex> labels, std::size_t class_count);

// One function per classifier.
std::unique_ptr<Classifier> MakeSvm(const SvmParameters& parameters, const kernel::Features& features);
std::vector<Matrix<double>> ScoreWithSvm(const GramExamples& examples, std::span<const std::uint32_t> held_out,
                                         std::span<const double> penalties);
std::unique_ptr<Classifier> MakeLogistic(const SvmParameters& parameters, const kernel::Features& features);
std::vector<Matrix<double>> ScoreWithLogistic(const GramExamples& examples, std::span<const std::uint32_t> held_out,
                                              std::span<const double> penalties);

// Compares settings of classifiers by cross-validation on the labeled examples.
//
// Every setting is judged by the log loss of held-out examples: accuracy alone has too many ties with a few dozen
// labels. Scores become probabilities by one temperature per setting, fitted on the held-out scores themselves. The
// folds are stratified, the same for all settings, and determined by the seed; with few labels the examples are divided
// into folds several times, because a single division is chance. Settings run in parallel under oneTBB;
// the result does not depend on the number of threads. Pure functions, thread-safe.

/// One setting: a classifier, a kernel, by its matrix, and the penalty.
struct Trial {
  const ClassifierEntry* classifier = nullptr;
  std::size_t gram = 0;  ///< index of the kernel's matrix
  double c = 1;
  std::span<const double> class_weights = {};  ///< factors of c by class; empty: all are 1
  /// The features are learned from labels: there is a matrix for every fold of every division (LabelFolds), in order.
  bool gram_per_fold = false;
};

struct TrialScore {
  double log_loss = 0;  ///< mean over the held-out examples, by their weights
  double accuracy = 0;  ///< of the held-out examples, by their weights
};

/// Fold of each example, from 0: every class is spread evenly over the folds.
std::vector<std::size_t> StratifiedFolds(std::span<const ClassIndex> labels, std::size_t folds, std::uint64_t seed);

/// The folds of CrossValidate: for each division the fold of each example, from 0 to kLabelFolds - 1.
inline constexpr std::size_t kLabelFolds = 5;
std::vector<std::vector<std::size_t>> LabelFolds(std::span<const ClassIndex> labels, std::uint64_t seed);

/// Scores of all trials, in their order. `grams` are the kernel matrices of the labeled examples, `labels` their
/// classes in the same order, of which at least two differ. `weights` of the examples; empty: all weigh 1.
std::vector<TrialScore> CrossValidate(std::span<const ConstMatrixView> grams, std::span<const Trial> trials,
                                      std::span<const ClassIndex> labels, std::uint64_t seed,
                                      std::span<const double> weights = {});

/// Factors of the penalty, by class from 0 to the largest label, that give classes with few labels more weight: with
/// exponent 1 all classes have the same total weight, with 0 all examples. Rounded to half powers of two, so that they
/// stay the same while labels are added. Classes without labels have 1.
std::vector<double> BalancingWeights(std::span<const ClassIndex> labels, double exponent);

/// The parts of a setting, such as its normalisation, its kernel and its penalty, each a number.
using SettingParts = std::array<std::size_t, 3>;

/// The log loss of the shares of the classes, which is what a classifier has that knows nothing else.
double ChanceLoss(std::span<const ClassIndex> labels);

/// Losses moved towards the sum of what the parts of each setting do on average over all settings, half of the way with
/// up to 100 labels and less with more. The smallest of many noisy losses is small by chance; a part that is good in
/// many settings is not. In these averages no loss is above `largest`, so that a part does not look bad because it was
/// combined with one that is hopeless.
std::vector<double> ShrinkToParts(std::span<const double> losses, std::span<const SettingParts> parts,
                                  std::size_t labels, double largest);

/// The factor of the scores with which their softmax has the smallest log loss on held-out examples. The folds follow
/// the order of examples.positions.
double FitTemperature(const ClassifierEntry& classifier, const GramExamples& examples, std::uint64_t seed);

/// The probabilities of each example's classes, examples x class_count, from classifiers that did not see it.
Matrix<double> HeldOutProbabilities(const ClassifierEntry& classifier, const GramExamples& examples,
                                    std::uint64_t seed);

// The decision values of a whole pool, kept between trainings.
//
// After a warm training most multipliers are unchanged. Only the kernel columns of those that changed are computed and
// added; a bound on the accumulated rounding errors decides when everything is computed again.
//
// Update does all of it. A caller that streams blocks of the pool calls Begin, UpdateRows for every block (several at
// once) and Finish, which gives the same values if blocks begin at multiples of kRowsOfBlock. Values are valid after
// Finish; after an update that was not finished, the next one computes everything. Otherwise not thread-safe;
// concurrent reads are.

class PoolDecisions {
 public:
  struct UpdateReport {
    bool full = false;
    std::string_view reason;          ///< why it was full, or why it was not
    std::size_t columns_updated = 0;  ///< kernel columns computed
    std::size_t columns_total = 0;    ///< support vectors of the model
    double drift_bound = 0;           ///< no value differs by more from that of a full computation
  };

  static constexpr double kDefaultTolerance = 1e-8;

  /// Keeps a reference to `features` (the pool the models are trained on), which must outlive it. Updates may add up
  /// to `tolerance` of rounding error to a decision value before all are computed again; 0 always computes all.
  explicit PoolDecisions(const kernel::Features& features, double tolerance = kDefaultTolerance);

  UpdateReport Update(const SvmModel& model);

  static constexpr std::size_t kRowsOfBlock = KernelProduct::kBlockRows;
  /// Decides what must be computed, and prepares it. `model` must outlive Finish.
  UpdateReport Begin(const SvmModel& model);
  /// Rows in memory, between being read and being used.
  using Block = KernelProduct::Block;
  /// Reads rows first to first + count; nothing if their values do not change. Thread-safe.
  Block ReadRows(std::size_t first, std::size_t count) const;
  /// Brings rows first to first + count of values() up to date. Thread-safe for rows that do not overlap.
  void UpdateRows(std::size_t first, std::size_t count) { UpdateRows(first, count, ReadRows(first, count)); }
  /// The same with the rows that ReadRows read.
  void UpdateRows(std::size_t first, std::size_t count, const Block& rows);
  void Finish();

  std::size_t rows() const { return all_rows_.size(); }
  /// Pool rows x pairs of the last model.
  ConstMatrixView values() const { return {values_.data(), all_rows_.size(), columns_}; }
  /// The next Update is a full one.
  void Reset() { has_values_ = false; }

 private:
  /// Support vectors whose coefficients differ between two models, and by how much.
  struct Change {
    RowList rows;
    Matrix<double> coefficients;
    double mass = 0;  // largest sum of |coefficients| over the pairs
  };
  /// Between Begin and Finish.
  struct Running {
    const SvmModel* model = nullptr;
    bool full = false;
    Change change = {};
    double added_drift = 0;
    std::vector<double> offsets = {};
    std::unique_ptr<KernelProduct> product = {};  // none: the values do not change
  };

  bool SamePairs(const SvmModel& model) const;
  Change ChangeTo(const SvmModel& model) const;
  double RoundingBound(const SvmModel& model, double mass, std::size_t terms) const;
  double AdditionBound(const SvmModel& model) const;
  double DriftOfFull(const SvmModel& model) const;
  MutableMatrixView mutable_values() { return {values_.data(), all_rows_.size(), columns_}; }
  /// Prepares the product for all support vectors, or for the change alone.
  void Prepare(const SvmModel& model, bool full);

  const kernel::Features* features_;
  double tolerance_;
  double largest_squared_norm_ = 0;
  RowList all_rows_;
  std::vector<double> values_;  // rows x columns_ without padding: a cache line per row would be eight times the memory
  std::size_t columns_ = 0;
  SvmModel model_;  // the one behind values_
  bool has_values_ = false;
  double drift_at_full_ = 0;
  double drift_since_ = 0;
  Running running_;
};

}  // namespace fulcrum::classify
