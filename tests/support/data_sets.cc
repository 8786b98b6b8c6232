#include "tests/support/data_sets.h"

#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>

namespace fulcrum::testing {
namespace {

std::string ReadGzip(const std::string& path) {
  std::string text;
  gzFile file = gzopen(path.c_str(), "rb");
  if (file == nullptr) return text;
  std::vector<char> buffer(1 << 20);
  for (int count = 0; (count = gzread(file, buffer.data(), static_cast<unsigned>(buffer.size()))) > 0;) {
    text.append(buffer.data(), static_cast<std::size_t>(count));
  }
  gzclose(file);
  return text;
}

}  // namespace

std::optional<std::string> FindDataFile(const std::string& name) {
  const char* configured = std::getenv("FULCRUM_DATA");
  const std::filesystem::path folder =
      configured != nullptr ? configured : std::filesystem::path(FULCRUM_SOURCE_DIR) / "../shared/data";
  const std::filesystem::path path = folder / name;
  if (!std::filesystem::exists(path)) return std::nullopt;
  return path.lexically_normal().string();
}

std::optional<DataSet> LoadDataSet(const std::string& name) {
  const auto path = FindDataFile(name);
  if (!path) return std::nullopt;
  const std::string text = ReadGzip(*path);
  const std::size_t header_end = text.find('\n');
  const auto dims =
      static_cast<std::size_t>(std::count(text.begin(), text.begin() + static_cast<long>(header_end), ','));
  const auto lines = static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')) - 1;
  DataSet data{Matrix<double>(lines, dims), std::vector<int>(lines)};
  const char* cursor = text.c_str() + header_end + 1;
  for (std::size_t row = 0; row < lines; ++row) {
    char* next = nullptr;
    data.labels[row] = static_cast<int>(std::strtol(cursor, &next, 10));
    for (std::size_t col = 0; col < dims; ++col) {
      cursor = next + 1;
      data.features(row, col) = std::strtod(cursor, &next);
    }
    cursor = next + 1;
  }
  return data;
}

void StandardizeAndScaleToUnit(MutableMatrixView features) {
  const auto rows = static_cast<double>(features.rows());
  for (std::size_t col = 0; col < features.cols(); ++col) {
    double sum = 0;
    for (std::size_t row = 0; row < features.rows(); ++row) sum += features(row, col);
    const double mean = sum / rows;
    double squares = 0;
    for (std::size_t row = 0; row < features.rows(); ++row) squares += std::pow(features(row, col) - mean, 2);
    double deviation = std::sqrt(squares / (rows - 1));
    if (deviation < 1e-5) deviation = 1;
    for (std::size_t row = 0; row < features.rows(); ++row)
      features(row, col) = (features(row, col) - mean) / deviation;
  }
  for (std::size_t row = 0; row < features.rows(); ++row) {
    double squares = 0;
    for (double value : features.row(row)) squares += value * value;
    const double norm = squares > 0 ? std::sqrt(squares) : 1;
    for (double& value : features.row(row)) value /= norm;
  }
}

Matrix<double> RowsWithLabel(const DataSet& data, int label, std::size_t count) {
  std::vector<std::size_t> rows;
  for (std::size_t row = 0; row < data.labels.size() && rows.size() < count; ++row) {
    if (data.labels[row] == label) rows.push_back(row);
  }
  Matrix<double> chosen(rows.size(), data.features.cols());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::copy_n(data.features.row(rows[i]).data(), chosen.cols(), chosen.row(i).data());
  }
  return chosen;
}

}  // namespace fulcrum::testing
