#include "stages/leverage/landmark_pass.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "stages/kernel/float_columns.h"
#include "stages/leverage/kernel_extension.h"
#include "stages/linalg/blas.h"

namespace fulcrum::leverage {
namespace {

using linalg::Transpose;

class Pass {
 public:
  Pass(const kernel::KernelFunction& kernel, const kernel::Features& features, const LeadingVectors& vectors,
       std::span<const RowIndex> sample)
      : vectors_(vectors),
        sampled_(kernel, features, sample),
        at_sample_(sample.size(), rank()),
        products_(Matrix<double>::Zero(sample.size(), rank())) {}

  /// Scores of all rows of the class.
  void Stream(const BlockStream& stream, std::span<const RowIndex> rows, std::span<double> scores) {
    // Kept apart until they are added up in order.
    std::vector<Matrix<float>> sums(BlocksForAllThreads());
    const auto score = [&](std::size_t index) {
      const std::size_t first = index * kExtendedRows, count = std::min(kExtendedRows, rows.size() - first);
      const std::span<const RowIndex> block = rows.subspan(first, count);
      const Matrix<float> u = vectors_.of_block(block, first);
      WriteScores(u.view(), scores.subspan(first, count));
      KeepSampled(block, u.view());
      sums[index % sums.size()] = ProductsWith(block, u.view());
    };
    const auto add = [&](std::size_t index) {
      const Matrix<float>& part = sums[index % sums.size()];
      for (std::size_t i = 0; i < part.rows(); ++i) {
        for (std::size_t j = 0; j < part.cols(); ++j) products_(i, j) += static_cast<double>(part(i, j));
      }
    };
    stream.Run((rows.size() + kExtendedRows - 1) / kExtendedRows, sums.size(), score, add);
  }

  /// Over a class of so many rows, once all of them were streamed; 0 without a sample.
  double Residual(std::size_t rows) const {
    if (products_.rows() == 0) return 0;
    double largest = 0;
    for (std::size_t j = 0; j < rank(); ++j) {
      double squares = 0;
      for (std::size_t i = 0; i < products_.rows(); ++i) {
        squares += std::pow(products_(i, j) - vectors_.values[j] * static_cast<double>(at_sample_(i, j)), 2);
      }
      largest = std::max(largest, squares);
    }
    const double rows_for_one = static_cast<double>(rows) / static_cast<double>(products_.rows());
    return std::sqrt(largest * rows_for_one) / vectors_.values[0];
  }

 private:
  std::size_t rank() const { return vectors_.values.size(); }

  static void WriteScores(MatrixView<const float> u, std::span<double> scores) {
    for (std::size_t i = 0; i < u.rows(); ++i) {
      double score = 0;
      for (const float value : u.row(i)) score += static_cast<double>(value) * static_cast<double>(value);
      scores[i] = std::min(score, 1.0);
    }
  }

  /// u_j(t) of the sampled rows t in a block.
  void KeepSampled(std::span<const RowIndex> rows, MatrixView<const float> u) {
    const std::span<const RowIndex> sample = sampled_.rows();
    for (auto found = std::ranges::lower_bound(sample, rows.front()); found != sample.end() && *found <= rows.back();
         ++found) {
      const auto position = std::ranges::lower_bound(rows, *found) - rows.begin();
      std::ranges::copy(u.row(static_cast<std::size_t>(position)),
                        at_sample_.row(static_cast<std::size_t>(found - sample.begin())).begin());
    }
  }

  /// What a block adds to (K u_j)(t) of the sampled rows t.
  Matrix<float> ProductsWith(std::span<const RowIndex> block, MatrixView<const float> u) const {
    if (sampled_.size() == 0) return {};
    Matrix<float> to_sample(block.size(), sampled_.size()), products(sampled_.size(), rank());
    sampled_.WriteTile(sampled_.CopyBlock(block), 0, to_sample.view());
    linalg::Gemm(Transpose::kYes, Transpose::kNo, 1.0F, std::as_const(to_sample).view(), u, 0.0F, products.view());
    return products;
  }

  const LeadingVectors& vectors_;
  kernel::FloatColumns sampled_;
  Matrix<float> at_sample_;  // u_j(t)
  Matrix<double> products_;  // (K u_j)(t), as far as streamed
};

}  // namespace

LandmarkPass ScoreRows(const kernel::KernelFunction& kernel, const kernel::Features& features,
                       const LeadingVectors& vectors, std::span<const RowIndex> rows, std::span<const RowIndex> sample,
                       const BlockStream& stream) {
  Pass pass(kernel, features, vectors, sample);
  LandmarkPass result{std::vector<double>(rows.size()), 0};
  pass.Stream(stream, rows, result.scores);
  result.residual = pass.Residual(rows.size());
  return result;
}

}  // namespace fulcrum::leverage
