#include "stages/classify/model_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "stages/core/files.h"
#include "stages/core/status_macros.h"

namespace fulcrum::classify {
namespace {

absl::Status CannotRead(const std::string& path, int error) {
  const std::string message =
      absl::StrCat("cannot read the model file '", path, "': ", std::strerror(error != 0 ? error : EIO));
  return error == ENOENT ? absl::NotFoundError(message) : absl::UnavailableError(message);
}

absl::StatusOr<std::string> ReadModelFile(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) return CannotRead(path, errno);
  std::string content{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (file.bad()) return CannotRead(path, errno);
  return content;
}

constexpr std::string_view kMagic = "FULCRUMSVM";
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kPrefixSize = kMagic.size() + sizeof(kVersion);
constexpr std::size_t kChecksumSize = sizeof(std::uint64_t);
constexpr std::uint64_t kMostPairs = 1 << 24;

absl::Status Damaged(const char* what) {
  return absl::DataLossError(
      absl::StrCat("the SVM model is damaged: ", what, "; train and save it again, or take it from a backup"));
}

void PutKernel(const kernel::KernelFunction& kernel, ByteWriter& writer) {
  writer.Put(static_cast<std::uint8_t>(kernel.type));
  writer.Put(kernel.sigma);
  writer.Put(kernel.offset);
  writer.Put(static_cast<std::int32_t>(kernel.degree));
  writer.Put(static_cast<std::uint8_t>(kernel.normalize));
}

absl::StatusOr<kernel::KernelFunction> GetKernel(ByteReader& reader) {
  kernel::KernelFunction kernel;
  const auto type = reader.Get<std::uint8_t>();
  if (type > static_cast<std::uint8_t>(kernel::KernelType::kCosine)) return Damaged("it names an unknown kernel");
  kernel.type = static_cast<kernel::KernelType>(type);
  kernel.sigma = reader.Get<double>();
  kernel.offset = reader.Get<double>();
  kernel.degree = reader.Get<std::int32_t>();
  kernel.normalize = reader.Get<std::uint8_t>() != 0;
  if (!kernel::ValidateKernel(kernel).ok()) return Damaged("its kernel's parameters are impossible");
  return kernel;
}

void PutPair(const SvmPair& pair, ByteWriter& writer) {
  writer.Put(pair.first);
  writer.Put(pair.second);
  writer.Put(pair.rho);
  writer.Put(pair.objective);
  writer.Put(static_cast<std::uint64_t>(pair.iterations));
  writer.Put(static_cast<std::uint64_t>(pair.support_count));
  writer.Put(static_cast<std::uint8_t>(pair.converged));
  writer.Put(static_cast<std::uint8_t>(pair.has_platt));
  writer.Put(pair.platt.a);
  writer.Put(pair.platt.b);
}

SvmPair GetPair(ByteReader& reader) {
  SvmPair pair;
  pair.first = reader.Get<ClassIndex>();
  pair.second = reader.Get<ClassIndex>();
  pair.rho = reader.Get<double>();
  pair.objective = reader.Get<double>();
  pair.iterations = reader.Get<std::uint64_t>();
  pair.support_count = reader.Get<std::uint64_t>();
  pair.converged = reader.Get<std::uint8_t>() != 0;
  pair.has_platt = reader.Get<std::uint8_t>() != 0;
  pair.platt.a = reader.Get<double>();
  pair.platt.b = reader.Get<double>();
  return pair;
}

absl::StatusOr<std::vector<SvmPair>> GetPairs(std::uint64_t count, std::size_t class_count, ByteReader& reader) {
  if (count > kMostPairs) return Damaged("its number of classes is impossible");
  std::vector<SvmPair> pairs;
  for (std::uint64_t p = 0; p < count && reader.ok(); ++p) {
    pairs.push_back(GetPair(reader));
    const bool ordered = pairs.back().first >= 0 && pairs.back().first < pairs.back().second;
    if (!ordered || static_cast<std::size_t>(pairs.back().second) >= class_count) {
      return Damaged("it names a class that does not exist");
    }
  }
  return pairs;
}

void PutRows(ConstMatrixView matrix, ByteWriter& writer) {
  for (std::size_t row = 0; row < matrix.rows(); ++row) writer.PutDoubles(matrix.row(row));
}

absl::StatusOr<Matrix<double>> GetRows(std::uint64_t rows, std::uint64_t cols, ByteReader& reader) {
  // Checked before allocating: the size comes from a file and may be arbitrary.
  const std::uint64_t available = reader.remaining() / sizeof(double);
  if (cols != 0 && rows > available / cols) return Damaged("it ends early");
  Matrix<double> matrix(rows, cols);
  for (std::size_t row = 0; row < rows; ++row) reader.GetDoubles(matrix.row(row));
  return matrix;
}

/// Writes the part between version and checksum.
absl::StatusOr<SavedSvm> ParseBody(ByteReader& reader) {
  SavedSvm saved;
  SvmModel& model = saved.model;
  model.class_count = reader.Get<std::uint64_t>();
  FULCRUM_ASSIGN_OR_RETURN(model.kernel, GetKernel(reader));
  const auto pair_count = reader.Get<std::uint64_t>();
  const auto support_count = reader.Get<std::uint64_t>();
  const auto dims = reader.Get<std::uint64_t>();
  FULCRUM_ASSIGN_OR_RETURN(model.pairs, GetPairs(pair_count, model.class_count, reader));
  if (!reader.ok() || support_count > reader.remaining() / sizeof(RowIndex)) return Damaged("it ends early");
  for (std::uint64_t s = 0; s < support_count; ++s) saved.pool_rows.push_back(reader.Get<RowIndex>());
  FULCRUM_ASSIGN_OR_RETURN(model.coefficients, GetRows(support_count, pair_count, reader));
  FULCRUM_ASSIGN_OR_RETURN(Matrix<double> features, GetRows(support_count, dims, reader));
  if (!reader.ok()) return Damaged("it ends early");
  if (reader.remaining() != 0) return Damaged("there is more in it than a model");
  saved.features = std::make_unique<const kernel::DenseFeatures>(std::move(features));
  model.support_rows.resize(support_count);
  std::iota(model.support_rows.begin(), model.support_rows.end(), RowIndex{0});
  return saved;
}

}  // namespace

absl::StatusOr<std::string> SerializeSvm(const SvmModel& model, const kernel::Features& support_features) {
  FULCRUM_ASSIGN_OR_RETURN(const Matrix<double> support, SupportVectors(model, support_features));
  ByteWriter writer;
  writer.PutText(kMagic);
  writer.Put(kVersion);
  writer.Put(static_cast<std::uint64_t>(model.class_count));
  PutKernel(model.kernel, writer);
  writer.Put(static_cast<std::uint64_t>(model.pairs.size()));
  writer.Put(static_cast<std::uint64_t>(model.support_rows.size()));
  writer.Put(static_cast<std::uint64_t>(support_features.dims()));
  for (const SvmPair& pair : model.pairs) PutPair(pair, writer);
  for (RowIndex row : model.support_rows) writer.Put(row);
  PutRows(model.coefficients.view(), writer);
  PutRows(support.view(), writer);
  writer.Put(ChecksumOf(writer.bytes()));
  return writer.Take();
}

absl::StatusOr<SavedSvm> ParseSvm(std::string_view bytes) {
  const std::string_view start = bytes.substr(0, kMagic.size());
  if (start.empty() || start != kMagic.substr(0, start.size())) {
    return absl::InvalidArgumentError("this is not an SVM model of Fulcrum; give a file that it has saved");
  }
  if (bytes.size() < kPrefixSize + kChecksumSize) return Damaged("it ends early");
  const auto version = ByteReader(bytes.substr(kMagic.size())).Get<std::uint32_t>();
  if (version != kVersion) {
    return absl::InvalidArgumentError(absl::StrCat("the SVM model has format version ", version,
                                                   "; this program reads version ", kVersion,
                                                   ", so use the program that wrote it, or save the model again"));
  }
  const std::string_view content = bytes.substr(0, bytes.size() - kChecksumSize);
  if (ByteReader(bytes.substr(content.size())).Get<std::uint64_t>() != ChecksumOf(content)) {
    return Damaged("its checksum does not fit its content (cut short or changed)");
  }
  ByteReader reader(content.substr(kPrefixSize));
  return ParseBody(reader);
}

absl::Status SaveSvm(const SvmModel& model, const kernel::Features& support_features, const std::string& path) {
  FULCRUM_ASSIGN_OR_RETURN(const std::string bytes, SerializeSvm(model, support_features));
  return ReplaceFile(path, bytes);
}

absl::StatusOr<SavedSvm> LoadSvm(const std::string& path) {
  FULCRUM_ASSIGN_OR_RETURN(const std::string bytes, ReadModelFile(path));
  absl::StatusOr<SavedSvm> saved = ParseSvm(bytes);
  if (!saved.ok()) return absl::Status(saved.status().code(), absl::StrCat(path, ": ", saved.status().message()));
  return saved;
}

}  // namespace fulcrum::classify
