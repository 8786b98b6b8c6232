// Compares the SVM with LIBSVM on MNIST 3 against 5: batched prediction, and single-threaded cold training; compares
// warm training and pool updates with their cold counterparts.
#include <cmath>
#include <numeric>

#include "stages/classify/classifier.h"
#include "stages/classify/svm_model.h"
#include "stages/classify/svm_trainer.h"
#include "stages/core/random.h"
#include "stages/linalg/blas.h"
#include "tbb/global_control.h"
#include "tests/benchmarks/ratio_report.h"
#include "tests/support/data_sets.h"
#include "tests/support/matrices.h"
#include "tests/unit/stages/classify/libsvm_oracle.h"

namespace fulcrum::benchmarks {
namespace {

using classify::LibsvmOracle;
using classify::SvmModel;
using classify::SvmParameters;
using classify::SvmTrainer;

constexpr const char* kDataFile = "mnist_3vs5.csv.gz";
constexpr std::size_t kPredictedRows = 10000;
constexpr std::size_t kSupportVectors = 500;
constexpr std::size_t kLabels = 5000;
constexpr std::size_t kAddedLabels = 10;
constexpr int kAdditions = 5;

/// The pool, and its rows in the order in which they are labeled.
struct Pool {
  explicit Pool(testing::DataSet data) : order(data.labels.size()) {
    testing::StandardizeAndScaleToUnit(data.features.view());
    for (int label : data.labels) truth.push_back(label > 0 ? 1 : 0);
    std::iota(order.begin(), order.end(), RowIndex{0});
    Random(1).Shuffle(std::span(order));
    features = std::make_unique<kernel::DenseFeatures>(std::move(data.features));
  }
  std::vector<ClassIndex> Labels(std::size_t count) const {
    std::vector<ClassIndex> labels(truth.size(), kUnlabeled);
    for (std::size_t i = 0; i < count; ++i) labels[order[i]] = truth[order[i]];
    return labels;
  }

  RowList order;
  std::vector<ClassIndex> truth;
  std::unique_ptr<kernel::DenseFeatures> features;
};

/// Returns the operations per second of the BLAS library, on matrices of a favourable size.
double GemmRate() {
  constexpr std::size_t kSize = 2000;
  const Matrix<double> a = testing::RandomMatrix(kSize, kSize, 1), b = testing::RandomMatrix(kSize, kSize, 2);
  Matrix<double> c(kSize, kSize);
  const double seconds = FastestCpuSeconds(3, [&] {
    linalg::Gemm(linalg::Transpose::kNo, linalg::Transpose::kYes, 1.0, a.view(), b.view(), 0.0, c.view());
  });
  return 2.0 * kSize * kSize * kSize / seconds;
}

/// Adds labels until the model has 500 support vectors.
SvmModel ModelWithSupport(const Pool& pool, std::size_t support) {
  SvmTrainer trainer({}, *pool.features);
  for (std::size_t labels = support;; labels += 5) {
    SvmModel model = *trainer.Train(pool.Labels(labels), 2);
    if (model.support_rows.size() >= support) return model;
  }
}

/// Creates a LIBSVM svm_model from this model, with the support vectors as sparse rows.
class LibsvmTwin {
 public:
  LibsvmTwin(const SvmModel& model, const kernel::DenseFeatures& features) {
    for (RowIndex row : model.support_rows) nodes_.push_back(LibsvmOracle::ToNodes(features.values().row(row)));
    for (std::size_t s = 0; s < nodes_.size(); ++s) {
      rows_.push_back(nodes_[s].data());
      coefficients_.push_back(model.coefficients(s, 0));
    }
    model_.param.svm_type = C_SVC;
    model_.param.kernel_type = RBF;
    model_.param.gamma = 1 / (model.kernel.sigma * model.kernel.sigma);
    model_.nr_class = 2;
    model_.l = static_cast<int>(rows_.size());
    model_.SV = rows_.data();
    coefficient_rows_[0] = coefficients_.data();
    model_.sv_coef = coefficient_rows_;
    rho_ = model.pairs[0].rho;
    model_.rho = &rho_;
    // With two classes only the sums over both groups matter, so all support vectors can be assigned to the first
    // class.
    group_sizes_[0] = model_.l;
    model_.nSV = group_sizes_;
    model_.label = labels_;
  }
  double Decide(const svm_node* x) const {
    double value = 0;
    svm_predict_values(&model_, x, &value);
    return value;
  }

 private:
  std::vector<std::vector<svm_node>> nodes_;
  std::vector<svm_node*> rows_;
  std::vector<double> coefficients_;
  double* coefficient_rows_[1];
  double rho_ = 0;
  int group_sizes_[2] = {0, 0};
  int labels_[2] = {0, 1};
  svm_model model_{};
};

void ComparePrediction(const Pool& pool) {
  const SvmModel model = ModelWithSupport(pool, kSupportVectors);
  std::printf("\nprediction of %zu x %zu, %zu support vectors\n", kPredictedRows, pool.features->dims(),
              model.support_rows.size());
  RowList rows(kPredictedRows);
  std::iota(rows.begin(), rows.end(), RowIndex{0});
  Matrix<double> ours(kPredictedRows, 1);
  const auto predict = [&] { classify::DecisionValues(model, *pool.features, *pool.features, rows, ours.view()); };
  const double all_cores_seconds = FastestSeconds(9, predict);
  const tbb::global_control one_thread(tbb::global_control::max_allowed_parallelism, 1);
  const double our_seconds = FastestCpuSeconds(9, predict);

  const LibsvmTwin twin(model, *pool.features);
  std::vector<std::vector<svm_node>> nodes;
  for (RowIndex row : rows) nodes.push_back(LibsvmOracle::ToNodes(pool.features->values().row(row)));
  std::vector<double> theirs(kPredictedRows);
  const double their_seconds = FastestCpuSeconds(1, [&] {
    for (std::size_t i = 0; i < nodes.size(); ++i) theirs[i] = twin.Decide(nodes[i].data());
  });
  double largest = 0, other_signs = 0;
  for (std::size_t i = 0; i < theirs.size(); ++i) {
    largest = std::max(largest, std::abs(ours(i, 0) - theirs[i]) / std::abs(theirs[i]));
    other_signs += (ours(i, 0) > 0) == (theirs[i] > 0) ? 0 : 1;
  }
  const double gemm_rate = GemmRate();
  const double operations =
      2.0 * kPredictedRows * static_cast<double>(model.support_rows.size() * pool.features->dims());
  std::printf("  ours %.3f s on all cores and %.3f s on one, LIBSVM %.2f s, dgemm %.1f Gflop/s on one\n",
              all_cores_seconds, our_seconds, their_seconds, gemm_rate / 1e9);
  PrintAtLeast("faster than LIBSVM's svm_predict_values by, as it runs", their_seconds / all_cores_seconds, 20);
  PrintFigure("the same on one thread", their_seconds / our_seconds, "x");
  PrintAtLeast("share of this machine's dgemm rate", operations / our_seconds / gemm_rate, 0.6, "");
  PrintAtMost("rows with another sign", other_signs, 0);
  PrintAtMost("largest relative difference of decision values", largest, 1e-6);
}

/// Returns 1/2 b' K b - sum |b| in double precision, independent of the solver that computed b.
double Objective(const Pool& pool, const kernel::KernelFunction& kernel, std::span<const double> multipliers) {
  RowList rows;
  std::vector<double> beta;
  for (std::size_t row = 0; row < multipliers.size(); ++row) {
    if (multipliers[row] == 0) continue;
    rows.push_back(static_cast<RowIndex>(row));
    beta.push_back(multipliers[row]);
  }
  Matrix<double> coefficients(rows.size(), 1), products(rows.size(), 1);
  for (std::size_t s = 0; s < rows.size(); ++s) coefficients(s, 0) = beta[s];
  const double no_offset[] = {0};
  classify::ComputeKernelProduct(kernel, {pool.features.get(), rows, coefficients.view()}, *pool.features, rows,
                                 no_offset,
                                 /*accumulate=*/false, products.view());
  double objective = 0;
  for (std::size_t s = 0; s < rows.size(); ++s) objective += 0.5 * beta[s] * products(s, 0) - std::abs(beta[s]);
  return objective;
}

void CompareColdTraining(const Pool& pool, double tolerance) {
  const SvmParameters parameters{.tolerance = tolerance};
  const std::vector<ClassIndex> labels = pool.Labels(kLabels);
  std::printf("\ncold training on %zu labels, tolerance %g\n", kLabels, tolerance);
  SvmModel model;
  const double our_seconds = FastestCpuSeconds(3, [&] {
    SvmTrainer trainer(parameters, *pool.features);
    model = *trainer.Train(labels, 2);
  });
  LibsvmOracle oracle;
  const double their_seconds =
      FastestCpuSeconds(1, [&] { oracle = LibsvmOracle::Train(parameters, pool.features->values(), labels); });
  const double reference = Objective(pool, parameters.kernel, oracle.SignedMultipliers());
  std::printf("  ours %.3f s, LIBSVM %.2f s; %zu and %zu support vectors, %zu steps; dual objective %.9g and %.9g\n",
              our_seconds, their_seconds, model.support_rows.size(), oracle.support_count(), model.iterations(),
              model.objective(), reference);
  PrintAtLeast("faster than LIBSVM by", their_seconds / our_seconds, 1);
  PrintAtMost("relative difference of the dual objectives", std::abs(model.objective() / reference - 1), 1e-6);
}

/// Runs only the solver, with a precomputed kernel matrix, to measure the gain from the kept multipliers.
double ColdSolverSeconds(const Pool& pool, const SvmParameters& parameters, std::size_t labels) {
  kernel::RowSetKernel gram(parameters.kernel, *pool.features);
  gram.Update(std::span(pool.order).first(labels));
  const classify::PairProblem pair = classify::MakePairProblem(0, 1, gram, pool.Labels(labels), parameters);
  return FastestCpuSeconds(3, [&] { classify::SolveSmo(pair.View(gram), {.tolerance = parameters.tolerance}); });
}

void CompareWarmTraining(const Pool& pool) {
  std::printf("\n%zu labels added to %zu, tolerance 0.001\n", kAddedLabels, kLabels);
  const SvmParameters parameters;
  SvmTrainer trainer(parameters, *pool.features);
  classify::PoolDecisions decisions(*pool.features);
  decisions.Update(*trainer.Train(pool.Labels(kLabels), 2));
  double warm_seconds = 0, update_seconds = 0;
  std::size_t steps = 0, columns = 0, support = 0;
  for (int addition = 1; addition <= kAdditions; ++addition) {
    const std::vector<ClassIndex> labels = pool.Labels(kLabels + static_cast<std::size_t>(addition) * kAddedLabels);
    SvmModel model;
    warm_seconds += FastestCpuSeconds(1, [&] { model = *trainer.Train(labels, 2); }) / kAdditions;
    steps += trainer.report().iterations / kAdditions;
    update_seconds += FastestCpuSeconds(1, [&] { columns += decisions.Update(model).columns_updated; }) / kAdditions;
    support = model.support_rows.size();
  }
  const std::vector<ClassIndex> labels = pool.Labels(kLabels + kAddedLabels);
  SvmModel cold;
  const double cold_seconds = FastestCpuSeconds(3, [&] {
    trainer.Reset();
    cold = *trainer.Train(labels, 2);
  });
  const double solver_seconds = ColdSolverSeconds(pool, parameters, kLabels + kAddedLabels);
  const double full_seconds =
      FastestCpuSeconds(3, [&] { classify::DecisionValues(cold, *pool.features, *pool.features); });
  std::printf("  warm %.4f s and %zu steps (mean of %d), cold %.3f s and %zu steps, of which the solver %.4f s\n",
              warm_seconds, steps, kAdditions, cold_seconds, cold.iterations(), solver_seconds);
  PrintAtLeast("warm faster than cold by", cold_seconds / warm_seconds, 5);
  PrintFigure("cold solver alone, without its kernel, over all of warm", solver_seconds / warm_seconds, "x");
  std::printf("  pool of %zu rows: %zu of %zu kernel columns a time\n", pool.features->rows(), columns / kAdditions,
              support);
  PrintFigure("updating the pool's decisions faster than predicting it by", full_seconds / update_seconds, "x");
}

int Run() {
  auto data = testing::LoadDataSet(kDataFile);
  if (!data) {
    std::printf("skipped: data file %s is not here; set FULCRUM_DATA to its folder\n", kDataFile);
    return 0;
  }
  PrintHeading("Kernel SVM against LIBSVM: 3 against 5, rbf sigma 1, C 1; prediction on all cores, training on one");
  const Pool pool(*std::move(data));
  ComparePrediction(pool);
  const tbb::global_control one_thread(tbb::global_control::max_allowed_parallelism, 1);
  CompareColdTraining(pool, 1e-3);
  // At 0.001 each solver may stop anywhere within that tolerance of the optimum; only a small one determines the
  // objective.
  CompareColdTraining(pool, 1e-6);
  CompareWarmTraining(pool);
  return 0;
}

}  // namespace
}  // namespace fulcrum::benchmarks

int main() {
  return fulcrum::benchmarks::Run();
}
