#include "stages/select/similarity_sums.h"

#include <algorithm>
#include <array>
#include <optional>

#include "absl/strings/str_format.h"
#include "stages/core/matrix.h"
#include "stages/core/parallel.h"
#include "stages/core/status_macros.h"
#include "stages/kernel/float_columns.h"

namespace fulcrum::select {
namespace {

// A tile of 512 x 256 floats is half a megabyte: it is summed before it leaves the cache.
constexpr std::size_t kRowsPerBlock = 512;
constexpr std::size_t kPicksAtOnce = 256;
// A normalised kernel may round to just outside [0, 1].
constexpr float kTolerance = 1e-5F;

/// In several sums side by side, which is one vector of them, added up in a fixed order.
double SumOf(std::span<const float> values) {
  constexpr std::size_t kLanes = 8;
  std::array<double, kLanes> lanes{};
  std::size_t i = 0;
  for (; i + kLanes <= values.size(); i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) lanes[lane] += std::max(values[i + lane], 0.0F);
  }
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  for (; i < values.size(); ++i) sum += std::max(values[i], 0.0F);
  return sum;
}

bool IsSimilarity(float value) {
  return value >= -kTolerance && value <= 1 + kTolerance;
}

struct Offender {
  RowIndex row = 0;
  std::size_t pick = 0;
  float value = 0;
};

std::optional<Offender> FindOffender(std::span<const RowIndex> rows, MatrixView<const float> tile) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto row = tile.row(i);
    const auto found = std::find_if_not(row.begin(), row.end(), IsSimilarity);
    if (found != row.end()) return Offender{rows[i], static_cast<std::size_t>(found - row.begin()), *found};
  }
  return std::nullopt;
}

}  // namespace

absl::Status SimilaritySums::OutsideUnitInterval(RowIndex row, RowIndex pick, double value) const {
  return absl::InvalidArgumentError(absl::StrFormat(
      "the set function of a diverse batch needs a kernel with values in [0, 1], but %s gives %g between rows %d and "
      "%d "
      "of the pool (counted from 0). Use --kernel rbf, or --normalize-kernel where all values are positive.",
      kernel::DescribeKernel(kernel_), value, row, pick));
}

absl::Status SimilaritySums::AddSome(std::span<const RowIndex> picks) {
  const kernel::FloatColumns columns(kernel_, features_, picks);
  const bool check = !kernel::AlwaysInUnitInterval(kernel_);
  std::vector<std::optional<Offender>> offenders(check ? rows_.size() / kRowsPerBlock + 1 : 0);
  ParallelForBlocks(rows_.size(), kRowsPerBlock, [&](std::size_t first, std::size_t count) {
    Matrix<float> tile(count, picks.size());
    const auto rows = rows_.subspan(first, count);
    columns.WriteTile(columns.CopyBlock(rows), 0, tile.view());
    if (check) offenders[first / kRowsPerBlock] = FindOffender(rows, tile.view());
    for (std::size_t i = 0; i < count; ++i) sums_[first + i] += SumOf(tile.row(i));
  });
  for (const auto& offender : offenders) {
    if (offender) return OutsideUnitInterval(offender->row, picks[offender->pick], offender->value);
  }
  return absl::OkStatus();
}

absl::Status SimilaritySums::Add(std::span<const RowIndex> picks) {
  for (std::size_t first = 0; first < picks.size(); first += kPicksAtOnce) {
    FULCRUM_RETURN_IF_ERROR(AddSome(picks.subspan(first, std::min(kPicksAtOnce, picks.size() - first))));
  }
  return absl::OkStatus();
}

}  // namespace fulcrum::select
