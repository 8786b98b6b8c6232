#include "stages/stream/stream_model.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>
#include <utility>

#include "stages/classify/model_file.h"
#include "stages/classify/svm_model.h"
#include "stages/classify/svm_trainer.h"
#include "stages/core/files.h"
#include "stages/core/random.h"
#include "stages/core/status_macros.h"
#include "stages/kernel/kernel_tiles.h"
#include "stages/linalg/blas.h"
#include "stages/linalg/top_eigen.h"

namespace fulcrum::stream {
namespace {

// Relative to the mean of the diagonal: directions below it are rounding, and whitening would amplify them.
constexpr double kRidge = 1e-6;
constexpr double kLeastMoment = 1e-9;  // relative to the largest
constexpr std::uint64_t kLandmarkStream = 31, kReferenceStream = 32;

RowList Sample(const RowList& rows, std::size_t count, std::uint64_t seed, std::uint64_t stream) {
  if (rows.size() <= count) return rows;
  Random random = Random::Fork(seed, stream);
  RowList sample;
  for (const std::uint64_t place : DrawDifferent(rows.size(), count, random)) sample.push_back(rows[place]);
  std::ranges::sort(sample);
  return sample;
}

RowList Union(const RowList& a, const RowList& b) {
  RowList both;
  std::ranges::set_union(a, b, std::back_inserter(both));
  return both;
}

RowList ChooseLandmarks(const StreamPool& pool, const RowList& all, const StreamModelOptions& options) {
  RowList support;
  if (pool.classifier != nullptr) {
    support = Sample(pool.classifier->support_rows, options.landmarks / 2, options.seed, kLandmarkStream);
  }
  const RowList others = RowsOnlyIn(all, support);
  return Union(support, Sample(others, options.landmarks - support.size(), options.seed, kLandmarkStream + 100));
}

Matrix<double> KernelWith(const kernel::KernelFunction& kernel, const kernel::Features& features,
                          std::span<const RowIndex> rows, std::span<const RowIndex> landmarks) {
  Matrix<double> values(rows.size(), landmarks.size());
  if (!rows.empty()) kernel::ComputeKernelBlock(kernel, features, rows, landmarks, values.view());
  return values;
}

absl::Status AddRidge(double ridge, MutableMatrixView matrix) {
  double trace = 0;
  for (std::size_t i = 0; i < matrix.rows(); ++i) trace += matrix(i, i);
  if (!std::isfinite(trace) || trace <= 0) {
    return absl::InvalidArgumentError("the kernel of the pool's rows is not finite, or zero; check the features");
  }
  const double added = ridge * trace / static_cast<double>(matrix.rows());
  for (std::size_t i = 0; i < matrix.rows(); ++i) matrix(i, i) += added;
  return absl::OkStatus();
}

/// out += factors' * rows, in the order of the rows, each over all columns at once: no sum is reordered by what else is
/// computed, so that a value depends on nothing but its row. Four rows at a time, which halves the traffic to `out`;
/// zeros, of which columns of categories and bins are full, cost nothing.
void AddRows(std::span<const double> factors, const Matrix<double>& rows, std::span<double> out) {
  constexpr std::size_t kTogether = 4;
  double* __restrict const sums = out.data();
  const std::size_t size = out.size(), whole = factors.size() / kTogether * kTogether;
  for (std::size_t i = 0; i < whole; i += kTogether) {
    const double a = factors[i], b = factors[i + 1], c = factors[i + 2], d = factors[i + 3];
    if (a == 0 && b == 0 && c == 0 && d == 0) continue;
    const double* __restrict const first = rows.row(i).data();
    const double* __restrict const second = rows.row(i + 1).data();
    const double* __restrict const third = rows.row(i + 2).data();
    const double* __restrict const fourth = rows.row(i + 3).data();
    for (std::size_t j = 0; j < size; ++j) {
      sums[j] += (a * first[j] + b * second[j]) + (c * third[j] + d * fourth[j]);
    }
  }
  for (std::size_t i = whole; i < factors.size(); ++i) {
    const double factor = factors[i];
    const double* __restrict const values = rows.row(i).data();
    for (std::size_t j = 0; j < size; ++j) sums[j] += factor * values[j];
  }
}

double SquaredLength(std::span<const double> values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return sum;
}

/// K(x, x) - |z|^2 over K(x, x), from 0 to 1.
double Outside(double squared_length, double diagonal) {
  return diagonal > 0 ? std::clamp(1 - squared_length / diagonal, 0.0, 1.0) : 0;
}

}  // namespace

absl::Status StreamModel::ChooseCoordinates(Matrix<double> gram, Matrix<double> reference) {
  const std::size_t size = gram.rows(), wanted = projection_.cols();
  FULCRUM_RETURN_IF_ERROR(AddRidge(kRidge, gram.view()));
  FULCRUM_ASSIGN_OR_RETURN(const Matrix<double> lower, linalg::FactorCholesky(std::move(gram)));
  linalg::SolveLowerForRows(lower.view(), reference.view());
  Matrix<double> moments(size, size);
  linalg::Gemm(linalg::Transpose::kYes, linalg::Transpose::kNo, 1.0 / static_cast<double>(reference.rows()),
               std::as_const(reference).view(), std::as_const(reference).view(), 0.0, moments.view());
  FULCRUM_ASSIGN_OR_RETURN(linalg::FullEigen eigen, linalg::DecomposeSymmetric(std::move(moments)));
  const double largest = eigen.values.back();
  std::size_t rank = 0;
  while (rank < std::min(wanted, size) && eigen.values[size - 1 - rank] > kLeastMoment * largest) ++rank;
  Matrix<double> directions(rank, size);
  for (std::size_t j = 0; j < rank; ++j) {
    std::ranges::copy(eigen.vectors.row(size - 1 - j), directions.row(j).begin());
    moments_.push_back(eigen.values[size - 1 - j]);
  }
  linalg::SolveLowerTransposedForRows(lower.view(), directions.view());
  projection_ = Matrix<double>(size, rank);
  for (std::size_t j = 0; j < rank; ++j) {
    for (std::size_t i = 0; i < size; ++i) projection_(i, j) = directions(j, i);
  }
  return absl::OkStatus();
}

Matrix<double> StreamModel::CoordinatesOf(ConstMatrixView kernel_rows) const {
  Matrix<double> coordinates = Matrix<double>::Zero(kernel_rows.rows(), rank());
  for (std::size_t i = 0; i < kernel_rows.rows(); ++i) AddRows(kernel_rows.row(i), projection_, coordinates.row(i));
  return coordinates;
}

absl::Status StreamModel::FitDecisions(const StreamPool& pool, std::span<const RowIndex> landmarks,
                                       std::span<const RowIndex> fitted) {
  const classify::SvmModel& model = *pool.classifier;
  pairs_ = model.pairs;
  class_count_ = model.class_count;
  coefficients_ = Matrix<double>::Zero(landmarks.size(), pairs_.size());
  if (std::ranges::includes(landmarks, model.support_rows)) {
    for (std::size_t s = 0; s < model.support_rows.size(); ++s) {
      const auto place = std::ranges::lower_bound(landmarks, model.support_rows[s]) - landmarks.begin();
      std::ranges::copy(model.coefficients.row(s), coefficients_.row(static_cast<std::size_t>(place)).begin());
    }
    return absl::OkStatus();
  }
  Matrix<double> wanted(fitted.size(), pairs_.size());
  classify::DecisionValues(model, pool.features, pool.features, fitted, wanted.view());
  for (std::size_t i = 0; i < wanted.rows(); ++i) {
    for (std::size_t p = 0; p < pairs_.size(); ++p) wanted(i, p) += pairs_[p].rho;
  }
  const Matrix<double> kernel_rows = KernelWith(kernel_, pool.features, fitted, landmarks);
  Matrix<double> normal(landmarks.size(), landmarks.size()), right(pairs_.size(), landmarks.size());
  linalg::Gemm(linalg::Transpose::kYes, linalg::Transpose::kNo, 1.0, kernel_rows.view(), kernel_rows.view(), 0.0,
               normal.view());
  linalg::Gemm(linalg::Transpose::kYes, linalg::Transpose::kNo, 1.0, std::as_const(wanted).view(), kernel_rows.view(),
               0.0, right.view());
  FULCRUM_RETURN_IF_ERROR(AddRidge(kRidge, normal.view()));
  FULCRUM_ASSIGN_OR_RETURN(const Matrix<double> lower, linalg::FactorCholesky(std::move(normal)));
  linalg::SolveLowerForRows(lower.view(), right.view());
  linalg::SolveLowerTransposedForRows(lower.view(), right.view());
  for (std::size_t p = 0; p < pairs_.size(); ++p) {
    for (std::size_t i = 0; i < landmarks.size(); ++i) coefficients_(i, p) = right(p, i);
  }
  double own = 0, error = 0;
  std::vector<double> values(pairs_.size());
  for (std::size_t i = 0; i < wanted.rows(); ++i) {
    std::ranges::fill(values, 0.0);
    AddRows(kernel_rows.row(i), coefficients_, values);
    for (std::size_t p = 0; p < values.size(); ++p) {
      own += wanted(i, p) * wanted(i, p);
      error += (wanted(i, p) - values[p]) * (wanted(i, p) - values[p]);
    }
  }
  decision_error_ = own > 0 ? std::sqrt(error / own) : 0;
  return absl::OkStatus();
}

void StreamModel::SetFingerprint() {
  Checksum sum;
  const auto add = [&](const Matrix<double>& matrix) {
    for (std::size_t i = 0; i < matrix.rows(); ++i) {
      const auto row = matrix.row(i);
      sum.Add({reinterpret_cast<const char*>(row.data()), row.size_bytes()});
    }
  };
  add(landmarks_);
  add(projection_);
  add(coefficients_);
  add(labeled_);
  for (const classify::SvmPair& pair : pairs_) {
    const double values[] = {pair.rho, pair.platt.a, pair.platt.b};
    sum.Add({reinterpret_cast<const char*>(values), sizeof(values)});
  }
  fingerprint_ = sum.value();
}

absl::StatusOr<std::shared_ptr<const StreamModel>> StreamModel::Make(const StreamPool& pool,
                                                                     const StreamModelOptions& options) {
  RowList all(pool.rows.begin(), pool.rows.end()), labeled;
  if (all.empty()) {
    all.resize(pool.features.rows());
    std::iota(all.begin(), all.end(), RowIndex{0});
  }
  if (all.size() < 2) {
    return absl::FailedPreconditionError("a stream needs a pool of two rows or more to be compared with");
  }
  std::shared_ptr<StreamModel> model(new StreamModel());
  model->kernel_ = pool.classifier == nullptr ? pool.kernel : pool.classifier->kernel;
  for (const RowIndex row : all) {
    if (pool.labels[row] != kUnlabeled) labeled.push_back(row);
  }
  const RowList landmarks = ChooseLandmarks(pool, all, options);
  const RowList reference = Sample(all, options.reference, options.seed, kReferenceStream);
  Matrix<double> gram(landmarks.size(), landmarks.size());
  kernel::ComputeKernelSymmetric(model->kernel_, pool.features, landmarks, gram.view());
  const Matrix<double> reference_rows = KernelWith(model->kernel_, pool.features, reference, landmarks);
  model->projection_ = Matrix<double>(landmarks.size(), options.rank);
  FULCRUM_RETURN_IF_ERROR(model->ChooseCoordinates(std::move(gram), reference_rows.Clone()));
  model->reference_ = model->CoordinatesOf(reference_rows.view());
  model->labeled_ = model->CoordinatesOf(KernelWith(model->kernel_, pool.features, labeled, landmarks).view());
  const Matrix<double> rows = pool.features.Pack(landmarks).ToDense();
  model->landmarks_ = Matrix<double>(rows.cols(), rows.rows());
  for (std::size_t i = 0; i < rows.rows(); ++i) {
    for (std::size_t j = 0; j < rows.cols(); ++j) model->landmarks_(j, i) = rows(i, j);
  }
  model->norms_ = kernel::SquaredNormsOf(pool.features, landmarks);
  double outside = 0;
  for (std::size_t i = 0; i < reference.size(); ++i) {
    const double diagonal = kernel::KernelDiagonal(model->kernel_, pool.features.squared_norms()[reference[i]]);
    outside += Outside(SquaredLength(model->reference_.row(i)), diagonal);
  }
  model->usual_outside_ = outside / static_cast<double>(reference.size());
  if (pool.classifier != nullptr) {
    FULCRUM_RETURN_IF_ERROR(model->FitDecisions(pool, landmarks, Union(reference, labeled)));
  }
  model->SetFingerprint();
  return std::shared_ptr<const StreamModel>(std::move(model));
}

double StreamModel::UncertaintyOf(RowView& view) const {
  if (pairs_.empty()) return 1;
  view.votes.assign(class_count_, 0);
  for (std::size_t p = 0; p < pairs_.size(); ++p) {
    ++view.votes[static_cast<std::size_t>(view.decisions[p] > 0 ? pairs_[p].first : pairs_[p].second)];
  }
  const auto winner = static_cast<ClassIndex>(std::ranges::max_element(view.votes) - view.votes.begin());
  double least = 1;
  for (std::size_t p = 0; p < pairs_.size(); ++p) {
    const classify::SvmPair& pair = pairs_[p];
    if (pair.first != winner && pair.second != winner) continue;
    const classify::PlattParameters platt = pair.has_platt ? pair.platt : classify::PlattParameters{.a = -2, .b = 0};
    const double first = classify::PlattProbability(platt, view.decisions[p]);
    least = std::min(least, pair.first == winner ? first : 1 - first);
  }
  return 1 - std::abs(2 * least - 1);
}

void StreamModel::Look(std::span<const double> row, RowView& view) const {
  view.kernel.assign(landmarks(), 0.0);
  view.coordinates.assign(rank(), 0.0);
  view.decisions.resize(pairs_.size());
  AddRows(row, landmarks_, view.kernel);
  const double norm = SquaredLength(row);
  kernel::ApplyKernelToDots(kernel_, {&norm, 1}, norms_, MutableMatrixView(view.kernel.data(), 1, view.kernel.size()));
  AddRows(view.kernel, projection_, view.coordinates);
  for (std::size_t p = 0; p < pairs_.size(); ++p) view.decisions[p] = -pairs_[p].rho;
  AddRows(view.kernel, coefficients_, view.decisions);
  view.diagonal = kernel::KernelDiagonal(kernel_, norm);
  const double outside = Outside(SquaredLength(view.coordinates), view.diagonal);
  view.novelty = usual_outside_ < 1 ? std::clamp((outside - usual_outside_) / (1 - usual_outside_), 0.0, 1.0) : 0;
  view.uncertainty = UncertaintyOf(view);
}

}  // namespace fulcrum::stream
