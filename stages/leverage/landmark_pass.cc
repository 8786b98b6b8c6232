#include "stages/leverage/landmark_pass.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "stages/core/matrix.h"
#include "stages/linalg/blas.h"

namespace fulcrum::leverage {
namespace {

using linalg::Transpose;

// A tile of 256 x 512 floats is half a megabyte: it is multiplied before it leaves the cache.
constexpr std::size_t kRowsPerBlock = 256;
constexpr std::size_t kPanel = 512;

class Pass {
 public:
  Pass(const kernel::KernelFunction& kernel, const kernel::Features& features, const kernel::FloatColumns& landmarks,
       const SpanSolution& solution, std::span<const RowIndex> sample)
      : landmarks_(landmarks),
        solution_(solution),
        sampled_(kernel, features, sample),
        at_sample_(sample.size(), rank()),
        products_(Matrix<double>::Zero(sample.size(), rank())) {
    WriteVectors(landmarks.CopyBlock(sample), at_sample_.view());
  }

  /// Scores of all rows of the class.
  void Stream(const BlockStream& stream, std::span<const RowIndex> rows, std::span<double> scores) {
    // Kept apart until they are added up in order.
    std::vector<Matrix<float>> sums(BlocksForAllThreads());
    const auto score = [&](std::size_t index) {
      const std::size_t first = index * kRowsPerBlock, count = std::min(kRowsPerBlock, rows.size() - first);
      const kernel::FloatBlock block = landmarks_.CopyBlock(rows.subspan(first, count));
      Matrix<float> u(count, rank());
      WriteVectors(block, u.view());
      WriteScores(u.view(), scores.subspan(first, count));
      sums[index % sums.size()] = ProductsWith(block, u.view());
    };
    const auto add = [&](std::size_t index) {
      const Matrix<float>& part = sums[index % sums.size()];
      for (std::size_t i = 0; i < part.rows(); ++i) {
        for (std::size_t j = 0; j < part.cols(); ++j) products_(i, j) += static_cast<double>(part(i, j));
      }
    };
    stream.Run((rows.size() + kRowsPerBlock - 1) / kRowsPerBlock, sums.size(), score, add);
  }

  /// Over a class of so many rows, once all of them were streamed; 0 without a sample.
  double Residual(std::size_t rows) const {
    if (products_.rows() == 0) return 0;
    double largest = 0;
    for (std::size_t j = 0; j < rank(); ++j) {
      double squares = 0;
      for (std::size_t i = 0; i < products_.rows(); ++i) {
        squares += std::pow(products_(i, j) - solution_.eigen.values[j] * static_cast<double>(at_sample_(i, j)), 2);
      }
      largest = std::max(largest, squares);
    }
    const double rows_for_one = static_cast<double>(rows) / static_cast<double>(products_.rows());
    return std::sqrt(largest * rows_for_one) / solution_.eigen.values[0];
  }

 private:
  std::size_t rank() const { return solution_.projection.rows(); }

  /// u_j(x) of a block, a row an x.
  void WriteVectors(const kernel::FloatBlock& block, MatrixView<float> u) const {
    Matrix<float> tile(block.rows.size(), kPanel);
    for (std::size_t first = 0; first < landmarks_.size(); first += kPanel) {
      const auto part = tile.view().Cols(0, std::min(kPanel, landmarks_.size() - first));
      landmarks_.WriteTile(block, first, part);
      linalg::Gemm(Transpose::kNo, Transpose::kYes, 1.0F, part, solution_.projection.view().Cols(first, part.cols()),
                   first == 0 ? 0.0F : 1.0F, u);
    }
  }

  static void WriteScores(MatrixView<const float> u, std::span<double> scores) {
    for (std::size_t i = 0; i < u.rows(); ++i) {
      double score = 0;
      for (const float value : u.row(i)) score += static_cast<double>(value) * static_cast<double>(value);
      scores[i] = std::min(score, 1.0);
    }
  }

  /// What a block adds to (K u_j)(t) of the sampled rows t.
  Matrix<float> ProductsWith(const kernel::FloatBlock& block, MatrixView<const float> u) const {
    Matrix<float> to_sample(block.rows.size(), sampled_.size()), products(sampled_.size(), rank());
    sampled_.WriteTile(block, 0, to_sample.view());
    linalg::Gemm(Transpose::kYes, Transpose::kNo, 1.0F, std::as_const(to_sample).view(), u, 0.0F, products.view());
    return products;
  }

  const kernel::FloatColumns& landmarks_;
  const SpanSolution& solution_;
  kernel::FloatColumns sampled_;
  Matrix<float> at_sample_;  // u_j(t)
  Matrix<double> products_;  // (K u_j)(t), as far as streamed
};

}  // namespace

LandmarkPass ScoreRows(const kernel::KernelFunction& kernel, const kernel::Features& features,
                       const kernel::FloatColumns& landmarks, const SpanSolution& solution,
                       std::span<const RowIndex> rows, std::span<const RowIndex> sample, const BlockStream& stream) {
  Pass pass(kernel, features, landmarks, solution, sample);
  LandmarkPass result{std::vector<double>(rows.size()), 0};
  pass.Stream(stream, rows, result.scores);
  result.residual = pass.Residual(rows.size());
  return result;
}

}  // namespace fulcrum::leverage
