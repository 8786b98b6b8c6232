// Saving and loading a StreamModel: the numbers that decisions depend on, as they are, so that a model that was loaded
// decides as the one that was saved.

#include <string>
#include <string_view>
#include <utility>

#include "stages/classify/model_file.h"
#include "stages/core/files.h"
#include "stages/core/status_macros.h"
#include "stages/stream/stream_model.h"

namespace fulcrum::stream {
namespace {

constexpr std::string_view kMagic = "FULCRUMSTREAM";
constexpr std::uint32_t kVersion = 1;
// Of landmarks, coordinates, classes and so on: what a damaged file must not make memory of.
constexpr std::uint64_t kMostElements = std::uint64_t{1} << 32;

absl::Status Damaged() {
  return absl::DataLossError("the model of the stream is damaged");
}

void PutMatrix(ConstMatrixView matrix, classify::ByteWriter& out) {
  out.Put(static_cast<std::uint64_t>(matrix.rows()));
  out.Put(static_cast<std::uint64_t>(matrix.cols()));
  for (std::size_t i = 0; i < matrix.rows(); ++i) out.PutDoubles(matrix.row(i));
}

absl::StatusOr<Matrix<double>> GetMatrix(classify::ByteReader& in) {
  const auto rows = in.Get<std::uint64_t>(), cols = in.Get<std::uint64_t>();
  const bool possible = rows <= kMostElements && cols <= kMostElements && (cols == 0 || rows <= kMostElements / cols);
  if (!in.ok() || !possible || rows * cols * sizeof(double) > in.remaining()) return Damaged();
  Matrix<double> matrix(rows, cols);
  for (std::size_t i = 0; i < rows; ++i) in.GetDoubles(matrix.row(i));
  return matrix;
}

void PutVector(std::span<const double> values, classify::ByteWriter& out) {
  PutMatrix(ConstMatrixView(values.data(), 1, values.size()), out);
}

absl::StatusOr<std::vector<double>> GetVector(classify::ByteReader& in) {
  FULCRUM_ASSIGN_OR_RETURN(const Matrix<double> row, GetMatrix(in));
  if (row.rows() != 1) return Damaged();
  return std::vector<double>(row.row(0).begin(), row.row(0).end());
}

}  // namespace

std::string StreamModel::Serialize() const {
  classify::ByteWriter out;
  out.PutText(kMagic);
  out.Put(kVersion);
  out.Put(static_cast<std::uint8_t>(kernel_.type));
  out.Put(kernel_.sigma);
  out.Put(kernel_.offset);
  out.Put(static_cast<std::int32_t>(kernel_.degree));
  out.Put(static_cast<std::uint8_t>(kernel_.normalize));
  for (const Matrix<double>* const matrix : {&landmarks_, &projection_, &coefficients_, &reference_, &labeled_}) {
    PutMatrix(matrix->view(), out);
  }
  PutVector(norms_, out);
  PutVector(moments_, out);
  out.Put(usual_outside_);
  out.Put(decision_error_);
  out.Put(static_cast<std::uint64_t>(class_count_));
  out.Put(static_cast<std::uint64_t>(pairs_.size()));
  for (const classify::SvmPair& pair : pairs_) {
    out.Put(pair.first);
    out.Put(pair.second);
    out.Put(pair.rho);
    out.Put(static_cast<std::uint8_t>(pair.has_platt));
    out.Put(pair.platt.a);
    out.Put(pair.platt.b);
  }
  out.Put(ChecksumOf(out.bytes()));
  return out.Take();
}

absl::StatusOr<std::shared_ptr<const StreamModel>> StreamModel::Parse(std::string_view bytes) {
  if (!bytes.starts_with(kMagic) || bytes.size() < kMagic.size() + sizeof(std::uint64_t)) return Damaged();
  const std::string_view body = bytes.substr(0, bytes.size() - sizeof(std::uint64_t));
  if (classify::ByteReader(bytes.substr(body.size())).Get<std::uint64_t>() != ChecksumOf(body)) {
    return Damaged();
  }
  classify::ByteReader in(body.substr(kMagic.size()));
  if (in.Get<std::uint32_t>() != kVersion) {
    return absl::InvalidArgumentError("the model of the stream is from another version of Fulcrum");
  }
  std::shared_ptr<StreamModel> model(new StreamModel());
  kernel::KernelFunction& kernel = model->kernel_;
  const auto type = in.Get<std::uint8_t>();
  if (type > static_cast<std::uint8_t>(kernel::KernelType::kCosine)) return Damaged();
  kernel.type = static_cast<kernel::KernelType>(type);
  kernel.sigma = in.Get<double>();
  kernel.offset = in.Get<double>();
  kernel.degree = in.Get<std::int32_t>();
  kernel.normalize = in.Get<std::uint8_t>() != 0;
  for (Matrix<double>* const matrix :
       {&model->landmarks_, &model->projection_, &model->coefficients_, &model->reference_, &model->labeled_}) {
    FULCRUM_ASSIGN_OR_RETURN(*matrix, GetMatrix(in));
  }
  FULCRUM_ASSIGN_OR_RETURN(model->norms_, GetVector(in));
  FULCRUM_ASSIGN_OR_RETURN(model->moments_, GetVector(in));
  model->usual_outside_ = in.Get<double>();
  model->decision_error_ = in.Get<double>();
  model->class_count_ = in.Get<std::uint64_t>();
  const auto pairs = in.Get<std::uint64_t>();
  if (pairs > in.remaining()) return Damaged();
  for (std::uint64_t p = 0; p < pairs; ++p) {
    classify::SvmPair& pair = model->pairs_.emplace_back();
    pair.first = in.Get<ClassIndex>();
    pair.second = in.Get<ClassIndex>();
    pair.rho = in.Get<double>();
    pair.has_platt = in.Get<std::uint8_t>() != 0;
    pair.platt.a = in.Get<double>();
    pair.platt.b = in.Get<double>();
  }
  const std::size_t landmarks = model->norms_.size(), rank = model->moments_.size();
  const bool fits = in.ok() && in.remaining() == 0 && model->landmarks_.cols() == landmarks &&
                    model->projection_.rows() == landmarks && model->projection_.cols() == rank &&
                    model->reference_.cols() == rank && (pairs == 0 || model->coefficients_.rows() == landmarks) &&
                    model->coefficients_.cols() == pairs;
  if (!fits) return Damaged();
  model->SetFingerprint();
  return std::shared_ptr<const StreamModel>(std::move(model));
}

}  // namespace fulcrum::stream
