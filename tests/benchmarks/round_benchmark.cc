// Compares a complete DBALEVS round on MNIST 3 against 5 (13,454 x 784, 100 labels) with the same steps by LIBSVM and a
// full dsyevd, followed by a warm round after 10 more labels. Both sides use two threads.
#include <libsvm/svm.h>
#include <sys/resource.h>

#include <memory>
#include <numeric>

#include "pipeline/round/round.h"
#include "stages/kernel/kernel_tiles.h"
#include "stages/linalg/top_eigen.h"
#include "tests/benchmarks/ratio_report.h"
#include "tests/support/data_sets.h"

namespace fulcrum::benchmarks {
namespace {

constexpr std::size_t kLabels = 100;
constexpr std::size_t kBatch = 10;
constexpr double kTau = 0.75;
const kernel::KernelFunction kLeverageKernel{.type = kernel::KernelType::kRbf, .sigma = 2};

pipeline::RoundSpec Spec() {
  pipeline::RoundSpec spec;
  spec.strategy = "dbalevs";
  spec.batch = kBatch;
  spec.leverage_kernel = kLeverageKernel;
  spec.tau = kTau;
  return spec;
}

double PeakMegabytes() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

/// Converts a dense matrix to the sparse rows of LIBSVM.
std::vector<std::vector<svm_node>> ToNodes(ConstMatrixView values) {
  std::vector<std::vector<svm_node>> rows(values.rows());
  for (std::size_t i = 0; i < values.rows(); ++i) {
    for (std::size_t j = 0; j < values.cols(); ++j) {
      if (values(i, j) != 0) rows[i].push_back({static_cast<int>(j) + 1, values(i, j)});
    }
    rows[i].push_back({-1, 0});
  }
  return rows;
}

/// Returns the class of every row, by LIBSVM trained on the labeled rows.
std::vector<ClassIndex> PredictWithLibsvm(std::vector<std::vector<svm_node>>& rows,
                                          std::span<const ClassIndex> labels) {
  std::vector<double> y;
  std::vector<svm_node*> x;
  for (std::size_t row = 0; row < labels.size(); ++row) {
    if (labels[row] == kUnlabeled) continue;
    y.push_back(labels[row]);
    x.push_back(rows[row].data());
  }
  svm_problem problem{static_cast<int>(y.size()), y.data(), x.data()};
  svm_parameter parameter{};
  parameter.svm_type = C_SVC;
  parameter.kernel_type = RBF;
  parameter.gamma = 1;
  parameter.cache_size = 500;
  parameter.eps = 1e-3;
  parameter.C = 1;
  parameter.shrinking = 1;
  svm_set_print_string_function([](const char*) {});
  svm_model* model = svm_train(&problem, &parameter);
  std::vector<ClassIndex> predicted(labels.begin(), labels.end());
  for (std::size_t row = 0; row < labels.size(); ++row) {
    if (labels[row] == kUnlabeled) predicted[row] = static_cast<ClassIndex>(svm_predict(model, rows[row].data()));
  }
  svm_free_and_destroy_model(&model);
  return predicted;
}

/// Kernel by GEMM, full dsyevd, scores and the simple greedy algorithm for one class, as a straightforward
/// implementation.
RowList SelectNaively(const kernel::Features& features, const RowList& rows, std::span<const ClassIndex> labels,
                      std::size_t count) {
  Matrix<double> kernel(rows.size(), rows.size());
  kernel::ComputeKernelSymmetric(kLeverageKernel, features, rows, kernel.view());
  const auto top = linalg::SolveTopEigenDense(kernel.view(), {.tau = kTau});
  std::vector<double> gain(rows.size(), -1e300);
  std::size_t labeled = 0;
  for (RowIndex row : rows) labeled += labels[row] != kUnlabeled;
  const double factor = 0.5 / static_cast<double>(labeled + count);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (labels[rows[i]] != kUnlabeled) continue;
    gain[i] = 1;
    for (std::size_t j = 0; j < top->rank; ++j) gain[i] += top->vectors(j, i) * top->vectors(j, i);
    for (std::size_t j = 0; j < rows.size(); ++j) {
      if (labels[rows[j]] != kUnlabeled) gain[i] -= factor * kernel(i, j);
    }
  }
  RowList picks;
  for (std::size_t step = 0; step < count; ++step) {
    const auto best = static_cast<std::size_t>(std::max_element(gain.begin(), gain.end()) - gain.begin());
    picks.push_back(rows[best]);
    gain[best] = -1e300;
    for (std::size_t i = 0; i < rows.size(); ++i) gain[i] -= factor * kernel(i, best);
  }
  return picks;
}

RowList NaiveRound(const kernel::DenseFeatures& features, std::vector<std::vector<svm_node>>& nodes,
                   std::span<const ClassIndex> labels) {
  const auto predicted = PredictWithLibsvm(nodes, labels);
  RowList picks;
  for (ClassIndex class_index : {0, 1}) {
    RowList rows;
    for (std::size_t row = 0; row < predicted.size(); ++row) {
      if (predicted[row] == class_index) rows.push_back(static_cast<RowIndex>(row));
    }
    const RowList chosen = SelectNaively(features, rows, labels, kBatch / 2);
    picks.insert(picks.end(), chosen.begin(), chosen.end());
  }
  std::sort(picks.begin(), picks.end());
  return picks;
}

RowList SortedPicks(const pipeline::RoundResult& result) {
  RowList rows;
  for (const auto& pick : result.selection.picks) rows.push_back(pick.row);
  std::sort(rows.begin(), rows.end());
  return rows;
}

void PrintStages(const pipeline::RoundResult& result) {
  for (const auto& stage : result.seconds) std::printf("    %-10s %.3f s\n", stage.stage.c_str(), stage.seconds);
  for (const auto& group : result.classes) {
    std::printf("    class %d: m = %zu, k = %zu, %s\n", group.class_index, group.rows, group.rank,
                group.reason.c_str());
  }
}

int Run() {
  auto data = testing::LoadDataSet("mnist_3vs5.csv.gz");
  if (!data) {
    std::printf("skipped: mnist_3vs5.csv.gz is not here; set FULCRUM_DATA to its folder\n");
    return 0;
  }
  testing::StandardizeAndScaleToUnit(data->features.view());
  std::vector<ClassIndex> labels(data->labels.size(), kUnlabeled);
  const auto label_row = [&](std::size_t row) { labels[row] = data->labels[row] > 0 ? 1 : 0; };
  for (std::size_t i = 0; i < kLabels; ++i) label_row(i * 131);
  const kernel::DenseFeatures features(std::move(data->features));

  PrintHeading("A DBALEVS round on MNIST 3 against 5, 13,454 x 784, 100 labels");
  pipeline::RoundRunner runner(Spec(), features);
  const pipeline::RoundInput input{.class_count = 2, .labels = labels, .predictions = {}};
  pipeline::RoundResult first, second;
  const double before = PeakMegabytes();
  const double cold = FastestSeconds(1, [&] { first = *runner.Run(input); });
  std::printf("  first round %.3f s\n", cold);
  PrintStages(first);
  const auto pairs = static_cast<double>(features.rows()) * static_cast<double>(features.rows());
  PrintAtMost("memory beyond the pool, as a part of one kernel of the pool",
              (PeakMegabytes() - before) * 1048576 / (pairs * 8), 1);

  auto nodes = ToNodes(features.values());
  RowList naive_picks;
  const double naive = FastestSeconds(1, [&] { naive_picks = NaiveRound(features, nodes, labels); });
  std::printf("  the same with LIBSVM and dsyevd %.1f s\n", naive);
  PrintAtLeast("round faster than LIBSVM and dsyevd by", naive / cold, 20);
  PrintAtMost("batches differ (0 no, 1 yes)", naive_picks == SortedPicks(first) ? 0 : 1, 0);

  for (const auto& pick : first.selection.picks) label_row(pick.row);
  const double warm = FastestSeconds(1, [&] { second = *runner.Run(input); });
  std::printf("  second round, warm %.3f s\n", warm);
  PrintStages(second);
  PrintAtLeast("warm round faster than the first by", cold / warm, 3);
  return 0;
}

}  // namespace
}  // namespace fulcrum::benchmarks

int main() {
  return fulcrum::benchmarks::Run();
}
