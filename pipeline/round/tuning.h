// Chooses how features are normalised, the classifier, its kernel and its penalty from the labels so far.
//
// Candidates are a few normalisations, each with a linear kernel and rbf kernels whose widths are multiples of the
// pool's median distance, and three penalties. The classifier is logistic regression, or the SVM if there are so many
// labels that its sparse models matter. Cross-validation on the labels decides
// (stages/classify/classifier.h); with too few labels for that, the setting that was best on average over many
// data sets is used (docs/accuracy.md). The result is a function of the source, the labels and the seed. Pure
// functions; thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "stages/classify/svm_model.h"
#include "stages/core/matrix.h"
#include "stages/core/rows.h"
#include "stages/ingest/normalize.h"
#include "stages/ingest/pool.h"
#include "stages/kernel/features.h"
#include "stages/kernel/kernel_function.h"
#include "storage/pool/mapped_pool.h"

namespace fulcrum::pipeline {

/// One setting of the classifier, and how well it did on held-out labels.
struct ClassifierChoice {
  std::string normalize = "zscore";  ///< as ingest::ParseNormalization reads it
  std::string classifier = "svm";    ///< a name of the registry (stages/classify/classifier.h)
  kernel::KernelFunction kernel = {};
  double c = 1;
  double log_loss = 0;  ///< shrunk (classify::ShrinkToParts); 0 if it was not measured
  double accuracy = 0;
};

struct TunedSettings {
  ClassifierChoice chosen = {};
  kernel::KernelFunction leverage_kernel = {};  ///< on the same features, with the pool's median distance
  std::size_t labels = 0;                       ///< that it was chosen with; 0: too few to compare settings
  std::size_t classes = 0;                      ///< that had labels
  std::vector<ClassifierChoice> runners_up = {};
  std::string reason = {};
};

/// A pool that was normalised in one way. The members may share their owner.
struct PreparedFeatures {
  std::shared_ptr<const kernel::Features> pool;
  /// Begins with the pool's rows; what follows, such as a test set, is predicted along.
  std::shared_ptr<const kernel::Features> predicted;
};

/// Where tuning and rounds get a pool's features from. Thread-safe for reading.
class FeatureSource {
 public:
  virtual ~FeatureSource() = default;
  virtual std::size_t rows() const = 0;
  /// How many of the first rows normalisers and distances are learned from. Rows that come later change neither.
  virtual std::size_t learned_rows() const { return rows(); }
  /// The named rows as they are in the files.
  virtual absl::StatusOr<ingest::PoolFeatures> RawRows(std::span<const RowIndex> rows) const = 0;
  /// Learned from the pool. FailedPrecondition if this pool cannot be normalised in this way.
  virtual absl::StatusOr<std::shared_ptr<const ingest::Normalizer>> NormalizerFor(
      const std::string& normalize) const = 0;
  /// All rows, normalised.
  virtual absl::StatusOr<PreparedFeatures> Prepare(const std::string& normalize) const = 0;
};

/// A source for a pool in memory, which must outlive it.
class MemoryFeatureSource final : public FeatureSource {
 public:
  explicit MemoryFeatureSource(const ingest::PoolFeatures& features) : features_(features) {}
  std::size_t rows() const override { return features_.rows(); }
  absl::StatusOr<ingest::PoolFeatures> RawRows(std::span<const RowIndex> rows) const override;
  absl::StatusOr<std::shared_ptr<const ingest::Normalizer>> NormalizerFor(const std::string& normalize) const override;
  absl::StatusOr<PreparedFeatures> Prepare(const std::string& normalize) const override;

 private:
  const ingest::PoolFeatures& features_;
};

/// A source for an imported pool that stays on the disk. `first` is the pool that normalisers are learned from, `raw`
/// are its rows, and possibly more, without normalisation. Both must outlive it.
class MappedFeatureSource final : public FeatureSource {
 public:
  MappedFeatureSource(const storage::MappedFeatures& raw, const storage::MappedPool& first)
      : raw_(raw), first_(first) {}
  std::size_t rows() const override { return raw_.rows(); }
  absl::StatusOr<ingest::PoolFeatures> RawRows(std::span<const RowIndex> rows) const override;
  absl::StatusOr<std::shared_ptr<const ingest::Normalizer>> NormalizerFor(const std::string& normalize) const override;
  absl::StatusOr<PreparedFeatures> Prepare(const std::string& normalize) const override;

 private:
  const storage::MappedFeatures& raw_;
  const storage::MappedPool& first_;
};

/// Copies the named rows, in their order.
Matrix<double> CopyRows(ConstMatrixView features, std::span<const RowIndex> rows);
SparseMatrix CopyRows(const SparseMatrix& features, std::span<const RowIndex> rows);

/// Makes features dense that are stored sparse but have few zeros, so that a z-score is possible.
void MakeDenseIfWorthwhile(ingest::PoolFeatures& features);

/// `labels` by row of the source, kUnlabeled if there is none. `weights` by row: how much each label counts; empty: all
/// weigh 1.
absl::StatusOr<TunedSettings> Tune(const FeatureSource& source, std::span<const ClassIndex> labels, std::uint64_t seed,
                                   std::span<const double> weights = {});

/// Whether settings that were chosen with fewer labels, or with other classes, should be chosen again.
bool ShouldTuneAgain(const TunedSettings& settings, std::span<const ClassIndex> labels);

/// Makes these the settings of a classifier.
void UseChoice(const ClassifierChoice& choice, classify::SvmParameters& parameters);

/// "zscore, logistic, rbf(sigma=4.2), C 30", for reports.
std::string DescribeChoice(const ClassifierChoice& choice);

}  // namespace fulcrum::pipeline
