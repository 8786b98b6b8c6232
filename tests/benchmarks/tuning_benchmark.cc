// What it costs to choose settings, next to a warm round of the default strategy: at 200 labels on MNIST 3 against 5
// (13,454 x 784), and at 5,000 labels on 20,000 x 64.
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "pipeline/round/pool_source.h"
#include "pipeline/round/tuning.h"
#include "stages/core/random.h"
#include "stages/core/status_macros.h"
#include "tests/benchmarks/ratio_report.h"
#include "tests/support/data_sets.h"
#include "tests/support/matrices.h"

namespace fulcrum::benchmarks {
namespace {

template <typename T>
T Must(absl::StatusOr<T> value) {
  if (value.ok()) return *std::move(value);
  std::fprintf(stderr, "%s\n", std::string(value.status().message()).c_str());
  std::exit(1);
}

/// A pool in memory that keeps what normalisers learned from it, as the pool of a campaign does.
class CampaignLikeSource final : public pipeline::FeatureSource {
 public:
  explicit CampaignLikeSource(const ingest::PoolFeatures& features) : memory_(features) {}
  std::size_t rows() const override { return memory_.rows(); }
  absl::StatusOr<ingest::PoolFeatures> RawRows(std::span<const RowIndex> rows) const override {
    return memory_.RawRows(rows);
  }
  absl::StatusOr<std::shared_ptr<const ingest::Normalizer>> NormalizerFor(const std::string& normalize) const override {
    auto& known = known_[normalize];
    if (known == nullptr) {
      FULCRUM_ASSIGN_OR_RETURN(known, memory_.NormalizerFor(normalize));
    }
    return known;
  }
  absl::StatusOr<pipeline::PreparedFeatures> Prepare(const std::string& normalize) const override {
    return memory_.Prepare(normalize);
  }

 private:
  pipeline::MemoryFeatureSource memory_;
  mutable std::map<std::string, std::shared_ptr<const ingest::Normalizer>> known_;
};

struct Measured {
  double tuning_first = 0, tuning = 0, first_round = 0, warm_round = 0, warm_tune = 0;  // processor seconds
};

/// The first round with these labels, a warm one after 10 more, and tuning alone. `truth` by row.
Measured Measure(const ingest::PoolFeatures& features, std::span<const ClassIndex> truth, std::size_t label_count) {
  const CampaignLikeSource source(features);
  std::vector<ClassIndex> labels(truth.size(), kUnlabeled);
  for (std::size_t i = 0; i < label_count; ++i) {
    const std::size_t row = i * (truth.size() / label_count);
    labels[row] = truth[row];
  }
  Measured measured;
  pipeline::TunedSettings settings;
  measured.tuning_first = FastestCpuSeconds(1, [&] { settings = Must(pipeline::Tune(source, labels, 1)); });
  measured.tuning = FastestCpuSeconds(3, [&] { settings = Must(pipeline::Tune(source, labels, 1)); });
  std::printf("  chosen: %s\n", pipeline::DescribeChoice(settings.chosen).c_str());
  pipeline::RoundSpec spec;
  spec.strategy = "adaptive-herding";
  spec.batch = 10;
  pipeline::TunedRunner runner(spec);
  const pipeline::RoundInput input{.class_count = 2, .labels = labels, .predictions = {}};
  pipeline::RoundResult result;
  measured.first_round = FastestCpuSeconds(1, [&] { result = Must(runner.Run(source, input)); });
  measured.warm_round = 1e300;
  for (int round = 0; round < 3; ++round) {
    for (const select::Pick& pick : result.selection.picks) labels[pick.row] = truth[pick.row];
    const double seconds = FastestCpuSeconds(1, [&] { result = Must(runner.Run(source, input)); });
    if (seconds >= measured.warm_round) continue;
    measured.warm_round = seconds;
    measured.warm_tune = result.seconds.front().seconds;
  }
  PrintFigure("choosing settings the first time", measured.tuning_first, "s");
  PrintFigure("choosing settings again", measured.tuning, "s");
  PrintFigure("first round, with choosing settings", measured.first_round, "s");
  PrintFigure("warm round after 10 more labels", measured.warm_round, "s");
  return measured;
}

void MeasureImages() {
  auto data = testing::LoadDataSet("mnist_3vs5.csv.gz");
  if (!data) {
    std::printf("skipped: mnist_3vs5.csv.gz is not here; set FULCRUM_DATA to its folder\n");
    return;
  }
  std::vector<ClassIndex> truth;
  for (const int label : data->labels) truth.push_back(label > 0 ? 1 : 0);
  PrintHeading("200 labels of 13,454 x 784, processor seconds");
  const Measured measured = Measure(ingest::PoolFeatures(std::move(data->features)), truth, 200);
  PrintAtMost("choosing settings, as a part of a warm round", measured.tuning / measured.warm_round, 1.0 / 3);
  PrintAtMost("the same in a round that keeps them", measured.warm_tune / measured.warm_round, 0.01);
}

void MeasureManyLabels() {
  constexpr std::size_t kRows = 20'000, kDims = 64, kLabels = 5'000;
  Matrix<double> rows = testing::RandomMatrix(kRows, kDims, 7);
  std::vector<ClassIndex> truth;
  Random random(8);
  for (std::size_t row = 0; row < kRows; ++row) {
    const double score = rows(row, 0) * rows(row, 1) + 0.5 * rows(row, 2) + 0.4 * random.Normal();
    truth.push_back(score > 0 ? 1 : 0);
  }
  PrintHeading("5,000 labels of 20,000 x 64, processor seconds");
  const Measured measured = Measure(ingest::PoolFeatures(std::move(rows)), truth, kLabels);
  PrintAtMost("choosing settings, of all cores together", measured.tuning, 10, "s");
  PrintAtLeast("warm round faster than the first by", measured.first_round / measured.warm_round, 3);
}

}  // namespace
}  // namespace fulcrum::benchmarks

int main() {
  fulcrum::benchmarks::MeasureImages();
  fulcrum::benchmarks::MeasureManyLabels();
  return fulcrum::benchmarks::ExitCode();
}
