// Stream-based selection: decisions in a second, how well the budget is kept, and what the labels are worth compared
// with those that selection from the whole pool asks for. Streams of 200,000 rows with 64 features, 1 percent taken.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "pipeline/round/round.h"
#include "stages/ingest/normalize.h"
#include "stages/ingest/synthetic.h"
#include "stages/kernel/features.h"
#include "stages/stream/stream_selector.h"
#include "tests/benchmarks/ratio_report.h"

namespace fulcrum::benchmarks {
namespace {

constexpr std::size_t kRows = 200000, kTestRows = 10000, kDims = 64, kFirstRows = 1000, kFirstLabels = 40;
constexpr std::size_t kRounds = 10;
constexpr double kShare = 0.01;

struct Problem {
  std::string name;
  ingest::SyntheticSpec spec;
};

/// The rows of a stream, in their order, followed by test rows; z-scores.
struct Data {
  explicit Data(const ingest::SyntheticSpec& spec) {
    Matrix<double> values(kRows + kTestRows, kDims);
    std::vector<int> classes;
    for (std::size_t i = 0; i < values.rows(); ++i) classes.push_back(ingest::GenerateRow(spec, i, values.row(i)));
    std::vector<int> names = classes;
    std::ranges::sort(names);
    names.erase(std::ranges::unique(names).begin(), names.end());
    class_count = names.size();
    for (const int value : classes) {
      answers.push_back(static_cast<ClassIndex>(std::ranges::lower_bound(names, value) - names.begin()));
    }
    const auto normalizer =
        ingest::Normalizer::FitInPlace({ingest::NormalizeStep::kZscore}, values.view().Rows(0, kFirstRows)).value();
    normalizer.Apply(values.view().Rows(kFirstRows, values.rows() - kFirstRows));
    features = std::make_unique<kernel::DenseFeatures>(std::move(values));
  }

  std::span<const double> Row(std::size_t row) const { return features->values().row(row); }

  std::size_t class_count = 0;
  std::vector<ClassIndex> answers;
  std::unique_ptr<kernel::DenseFeatures> features;
};

pipeline::RoundSpec SpecOf(const std::string& strategy, std::size_t batch) {
  pipeline::RoundSpec spec;
  spec.strategy = strategy;
  spec.batch = batch;
  spec.svm.classifier = "logistic";
  // The distance between two rows of z-scores is about sqrt(2 d).
  spec.svm.kernel.sigma = std::sqrt(2.0 * kDims);
  spec.svm.c = 10;
  spec.leverage_kernel = spec.svm.kernel;
  return spec;
}

/// Trains on the labels; selects a batch if the strategy is to. Test rows are never labeled and never picked.
pipeline::RoundResult Round(const Data& data, std::span<const ClassIndex> labels, const pipeline::RoundSpec& spec,
                            bool select) {
  static const RowList test = [] {
    RowList rows(kTestRows);
    std::iota(rows.begin(), rows.end(), static_cast<RowIndex>(kRows));
    return rows;
  }();
  pipeline::RoundInput input{.class_count = data.class_count, .labels = labels};
  input.barred = test;
  input.always_classify = true;
  input.probabilities = true;
  input.select = select;
  return pipeline::RoundRunner(spec, *data.features).Run(input).value();
}

double TestAccuracy(const Data& data, const pipeline::RoundResult& result) {
  std::size_t right = 0;
  for (std::size_t i = kRows; i < kRows + kTestRows; ++i) right += result.predicted[i] == data.answers[i] ? 1 : 0;
  return static_cast<double>(right) / kTestRows;
}

std::vector<ClassIndex> FirstLabels(const Data& data) {
  std::vector<ClassIndex> labels(kRows + kTestRows, kUnlabeled);
  for (std::size_t i = 0; i < kFirstLabels; ++i) labels[i] = data.answers[i];
  return labels;
}

double FromPool(const Data& data, const std::string& strategy, std::size_t wanted) {
  std::vector<ClassIndex> labels = FirstLabels(data);
  for (std::size_t round = 0; round < kRounds; ++round) {
    const std::size_t batch = wanted * (round + 1) / kRounds - wanted * round / kRounds;
    for (const select::Pick& pick : Round(data, labels, SpecOf(strategy, batch), true).selection.picks) {
      labels[pick.row] = data.answers[pick.row];
    }
  }
  return TestAccuracy(data, Round(data, labels, SpecOf(strategy, 1), false));
}

std::shared_ptr<const stream::StreamModel> ModelAt(const Data& data, std::span<const ClassIndex> labels,
                                                   std::size_t arrived) {
  const pipeline::RoundResult trained = Round(data, labels, SpecOf("random", 1), false);
  RowList rows(arrived);
  std::iota(rows.begin(), rows.end(), RowIndex{0});
  return stream::StreamModel::Make(
             {.features = *data.features, .labels = labels, .classifier = trained.model.get(), .rows = rows}, {})
      .value();
}

/// Answers every row; a new model is trained when a tenth of the budget has been labeled.
double FromStream(const Data& data, std::size_t& taken) {
  std::vector<ClassIndex> labels = FirstLabels(data);
  auto selector =
      stream::StreamSelector::Make(ModelAt(data, labels, kFirstRows), {.budget = {.share = kShare}}).value();
  double furthest = 0;
  taken = 0;
  for (std::size_t row = kFirstRows; row < kRows; ++row) {
    const std::size_t offered = row - kFirstRows + 1;
    if (selector.Offer(data.Row(row), 0)->take) {
      labels[row] = data.answers[row];
      ++taken;
      const auto each = static_cast<std::size_t>(kShare * kRows / kRounds);
      if (taken % each == 0) (void)selector.UseModel(ModelAt(data, labels, row + 1));
    }
    const double due = kShare * static_cast<double>(offered);
    if (due >= 100) furthest = std::max(furthest, std::abs(static_cast<double>(taken) - due) / due);
  }
  const double due = kShare * static_cast<double>(kRows - kFirstRows);
  PrintAtMost("  budget: off by, at the end", 100 * std::abs(static_cast<double>(taken) - due) / due, 1, "%");
  PrintAtMost("  budget: off by, at any moment after 100 labels", 100 * furthest, 1, "%");
  return TestAccuracy(data, Round(data, labels, SpecOf("random", 1), false));
}

void CompareAccuracy() {
  const Problem problems[] = {
      {"ringnorm", {.problem = ingest::SyntheticProblem::kRingnorm, .mean_factor = 1}},
      {"manyclasses", {.problem = ingest::SyntheticProblem::kManyClasses}},
      {"imbalance", {.problem = ingest::SyntheticProblem::kImbalance}},
  };
  for (const Problem& problem : problems) {
    const Data data(problem.spec);
    std::printf("\n%s: accuracy on %zu other rows\n", problem.name.c_str(), kTestRows);
    std::size_t taken = 0;
    const double from_stream = FromStream(data, taken);
    const double from_pool = FromPool(data, "hybrid", taken);
    const double at_random = FromPool(data, "random", taken);
    std::printf("  %zu labels: stream %.4f, pool (hybrid) %.4f, random %.4f\n", taken, from_stream, from_pool,
                at_random);
    PrintAtMost("points below selection from the pool", 100 * (from_pool - from_stream), 1.5, "points");
  }
}

/// One thread answers `rows` rows, one at a time; the seconds that each took.
std::vector<double> TimeDecisions(const std::shared_ptr<const stream::StreamModel>& model, const Data& data,
                                  std::size_t first, std::size_t rows) {
  auto selector = stream::StreamSelector::Make(model, {.budget = {.share = kShare}}).value();
  std::vector<double> seconds(rows);
  for (std::size_t i = 0; i < rows; ++i) {
    const auto start = std::chrono::steady_clock::now();
    (void)selector.Offer(data.Row(first + i), 0);
    seconds[i] = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  return seconds;
}

void MeasureSpeed() {
  const Data data({.problem = ingest::SyntheticProblem::kRingnorm, .mean_factor = 1});
  std::vector<ClassIndex> labels = FirstLabels(data);
  for (std::size_t i = 0; i < 2000; ++i) labels[i] = data.answers[i];
  const auto model = ModelAt(data, labels, kRows);
  std::printf("\none stream on one thread, %zu features, 2,000 labels: %zu landmarks, rank %zu\n", kDims,
              model->landmarks(), model->rank());
  std::vector<double> seconds = TimeDecisions(model, data, 0, kRows);
  const double total = std::accumulate(seconds.begin(), seconds.end(), 0.0);
  std::ranges::sort(seconds);
  PrintAtLeast("decisions in a second", kRows / total, 20000, "");
  PrintAtMost("milliseconds, 99th percentile", 1e3 * seconds[kRows * 99 / 100], 5);
  PrintFigure("milliseconds, longest", 1e3 * seconds.back(), "");
  const auto selector = stream::StreamSelector::Make(model, {.budget = {.share = kShare}}).value();
  PrintFigure("bytes of state", static_cast<double>(selector.State().size()), "");
}

}  // namespace
}  // namespace fulcrum::benchmarks

int main() {
  fulcrum::benchmarks::MeasureSpeed();
  fulcrum::benchmarks::CompareAccuracy();
}
