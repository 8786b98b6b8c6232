// Near-optimal batch mode active learning (Chen and Krause 2013). METHOD section 2: 300 linear hypotheses with
// bias from the version space (posterior.h); then b times the example that leaves the smallest expected
// mass of hypotheses, with label noise 0.02 (posterior.h). C > 2 classes: a hypothesis is C one-against-rest
// functions and predicts the class of the largest.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "stages/core/parallel.h"
#include "stages/core/random.h"
#include "stages/kernel/kernel_tiles.h"
#include "stages/linalg/blas.h"
#include "stages/select/posterior/posterior.h"
#include "stages/select/strategy.h"

namespace fulcrum::select {
namespace {

constexpr std::size_t kHypotheses = 300;
constexpr double kNoise = 0.02;
// Hypotheses are combinations of at most this many rows, the labeled first: all linear functions if the dimension is no
// larger, otherwise those of a random subspace that contains the labeled rows.
constexpr std::size_t kSpanRows = 256;
constexpr std::size_t kRowsPerBlock = 512;

/// One function per class against the rest; for two classes one function, positive for class 0.
struct LinearHypotheses {
  RowList anchors;
  std::vector<Matrix<double>> weights;      ///< per function: hypotheses x anchors
  std::vector<std::vector<double>> biases;  ///< per function: by hypothesis
};

RowList RowsToSpan(RowList labeled, RowList unlabeled, Random& random) {
  random.Shuffle(std::span<RowIndex>(labeled));
  random.Shuffle(std::span<RowIndex>(unlabeled));
  labeled.resize(std::min(labeled.size(), kSpanRows));
  const std::size_t more = std::min(unlabeled.size(), kSpanRows - labeled.size());
  labeled.insert(labeled.end(), unlabeled.begin(), unlabeled.begin() + static_cast<std::ptrdiff_t>(more));
  return labeled;
}

/// The constant that stands for the bias, of the size of the features, so that scaling them changes nothing.
double BiasFeature(const kernel::Features& features) {
  const auto norms = features.squared_norms();
  const double mean = std::accumulate(norms.begin(), norms.end(), 0.0) / static_cast<double>(norms.size());
  return mean > 0 ? std::sqrt(mean) : 1;
}

LinearHypotheses SampleHypotheses(const Candidates& candidates, std::span<const RowIndex> unlabeled) {
  Random random = Random::Fork(candidates.seed, candidates.queries_so_far);
  const RowList labeled = LabeledRows(candidates.labels);
  const SpanBasis basis(*candidates.features, RowsToSpan(labeled, RowList(unlabeled.begin(), unlabeled.end()), random));
  const std::size_t dims = basis.anchors().size();
  const double bias_feature = BiasFeature(*candidates.features);
  const Matrix<double> coordinates = basis.Coordinates(labeled);

  LinearHypotheses hypotheses;
  hypotheses.anchors.assign(basis.anchors().begin(), basis.anchors().end());
  const std::size_t functions = candidates.class_count == 2 ? 1 : candidates.class_count;
  for (std::size_t c = 0; c < functions; ++c) {
    Matrix<double> constraints(labeled.size(), dims + 1);
    for (std::size_t i = 0; i < labeled.size(); ++i) {
      const double sign = candidates.labels[labeled[i]] == static_cast<ClassIndex>(c) ? 1 : -1;
      for (std::size_t j = 0; j < dims; ++j) constraints(i, j) = sign * coordinates(i, j);
      constraints(i, dims) = sign * bias_feature;
    }
    VersionSpaceSample sample = SampleVersionSpace(constraints.view(), kHypotheses, random.Next());
    std::vector<double>& biases = hypotheses.biases.emplace_back();
    for (std::size_t h = 0; h < kHypotheses; ++h) biases.push_back(sample.vectors(h, dims) * bias_feature);
    basis.ToAnchorWeights(sample.vectors.view().Cols(0, dims));
    hypotheses.weights.push_back(Matrix<double>::CopyOf(sample.vectors.view().Cols(0, dims)));
  }
  return hypotheses;
}

/// Values of one function of all hypotheses: examples x hypotheses.
void Evaluate(const LinearHypotheses& hypotheses, std::size_t function, ConstMatrixView dots,
              MutableMatrixView values) {
  for (std::size_t i = 0; i < values.rows(); ++i) {
    std::copy(hypotheses.biases[function].begin(), hypotheses.biases[function].end(), values.row(i).begin());
  }
  if (dots.empty()) return;
  linalg::Gemm(linalg::Transpose::kNo, linalg::Transpose::kYes, 1.0, dots, hypotheses.weights[function].view(), 1.0,
               values);
}

void PredictBlock(const LinearHypotheses& hypotheses, ConstMatrixView dots, MatrixView<std::uint16_t> predictions) {
  Matrix<double> values(dots.rows(), kHypotheses);
  Evaluate(hypotheses, 0, dots, values.view());
  const bool two_classes = hypotheses.weights.size() == 1;
  for (std::size_t i = 0; i < predictions.rows(); ++i) {
    for (std::size_t h = 0; h < kHypotheses; ++h) predictions(i, h) = two_classes && values(i, h) < 0 ? 1 : 0;
  }
  Matrix<double> rivals(dots.rows(), kHypotheses);
  for (std::size_t c = 1; c < hypotheses.weights.size(); ++c) {
    Evaluate(hypotheses, c, dots, rivals.view());
    for (std::size_t i = 0; i < predictions.rows(); ++i) {
      for (std::size_t h = 0; h < kHypotheses; ++h) {
        if (rivals(i, h) <= values(i, h)) continue;
        values(i, h) = rivals(i, h);
        predictions(i, h) = static_cast<std::uint16_t>(c);
      }
    }
  }
}

Matrix<std::uint16_t> Predict(const kernel::Features& features, const LinearHypotheses& hypotheses,
                              std::span<const RowIndex> rows) {
  Matrix<std::uint16_t> predictions(rows.size(), kHypotheses);
  const kernel::KernelTiles<double> inner_products({.type = kernel::KernelType::kLinear}, features, hypotheses.anchors);
  ParallelForBlocks(rows.size(), kRowsPerBlock, [&](std::size_t first, std::size_t count) {
    Matrix<double> dots(count, hypotheses.anchors.size());
    inner_products.Write(inner_products.Pack(rows.subspan(first, count)), dots.view());
    PredictBlock(hypotheses, dots.view(), predictions.view().Rows(first, count));
  });
  return predictions;
}

class NearOpt final : public Strategy {
 public:
  Requirements requirements() const override { return {}; }

  absl::StatusOr<Selection> Select(const Candidates& candidates) const override {
    const RowList rows = UnlabeledRows(candidates.labels);
    const LinearHypotheses hypotheses = SampleHypotheses(candidates, rows);
    const Matrix<std::uint16_t> predictions = Predict(*candidates.features, hypotheses, rows);
    const LabelModel model = {.class_count = candidates.class_count, .noise = kNoise};
    Selection selection;
    for (const MassReduction& chosen : ReduceMassGreedily(predictions.view(), rows, model, candidates.batch)) {
      selection.picks.push_back({.row = rows[chosen.example], .gain = chosen.reduction});
    }
    AnnotateClasses(candidates, selection.picks);
    return selection;
  }
};

}  // namespace

std::unique_ptr<Strategy> MakeNearOpt() {
  return std::make_unique<NearOpt>();
}

}  // namespace fulcrum::select
