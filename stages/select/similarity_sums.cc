#include "stages/select/similarity_sums.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <optional>

#include "absl/strings/str_format.h"
#include "stages/core/matrix.h"
#include "stages/core/parallel.h"
#include "stages/core/status_macros.h"

namespace fulcrum::select {
namespace {

constexpr std::size_t kRowsPerBlock = 512;
// A normalised kernel may round to just outside [0, 1].
constexpr float kTolerance = 1e-5F;

bool IsSimilarity(float value) {
  return value >= -kTolerance && value <= 1 + kTolerance;
}

struct Offender {
  RowIndex row = 0;
  RowIndex pick = 0;
  float value = 0;
};

std::optional<Offender> FindOffender(std::span<const RowIndex> picks, std::span<const RowIndex> rows,
                                     MatrixView<const float> tile) {
  for (std::size_t t = 0; t < tile.rows(); ++t) {
    const auto row = tile.row(t);
    const auto found = std::find_if_not(row.begin(), row.end(), IsSimilarity);
    if (found != row.end()) return Offender{rows[static_cast<std::size_t>(found - row.begin())], picks[t], *found};
  }
  return std::nullopt;
}

void AddRow(std::span<const float> similarities, std::span<double> sums) {
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += static_cast<double>(std::max(similarities[i], 0.0F));
}

bool AnyBelow(std::span<const double> sums, std::span<const double> ceilings, double level) {
  std::int64_t below = 0;  // as wide as what it counts, which makes vector code of the loop
  for (std::size_t i = 0; i < sums.size(); ++i) below |= static_cast<std::int64_t>(sums[i] < ceilings[i] - level);
  return below != 0;
}

/// A rival's gain l + 1 - factor sum is above a pick's where its sum is below its ceiling (l + 1) / factor less the
/// pick's gain / factor.
std::vector<double> CeilingsOf(const Rivals& rivals, std::size_t first, std::size_t count) {
  std::vector<double> ceilings(count, -std::numeric_limits<double>::infinity());
  for (std::size_t i = 0; i < count; ++i) {
    if (rivals.present[first + i]) ceilings[i] = (rivals.scores[first + i] + 1) / rivals.factor;
  }
  return ceilings;
}

/// Adds the rows of a tile one by one, up to the first that a rival would have beaten; returns how many.
std::size_t AddRows(MatrixView<const float> tile, const Rivals* rivals, std::size_t first, std::span<double> sums) {
  const std::vector<double> ceilings = rivals ? CeilingsOf(*rivals, first, sums.size()) : std::vector<double>();
  for (std::size_t t = 0; t < tile.rows(); ++t) {
    if (rivals && t > 0 && AnyBelow(sums, ceilings, rivals->gains[t] / rivals->factor)) return t;
    AddRow(tile.row(t), sums);
  }
  return tile.rows();
}

void LowerTo(std::size_t value, std::atomic<std::size_t>& to) {
  std::size_t seen = to.load();
  while (value < seen && !to.compare_exchange_weak(seen, value)) {
  }
}

}  // namespace

absl::Status SimilaritySums::OutsideUnitInterval(RowIndex row, RowIndex pick, double value) const {
  return absl::InvalidArgumentError(absl::StrFormat(
      "the set function of a diverse batch needs a kernel with values in [0, 1], but %s gives %g between rows %d and "
      "%d of the pool (counted from 0). Use --kernel rbf, or --normalize-kernel where all values are positive.",
      kernel::DescribeKernel(kernel_), value, row, pick));
}

absl::StatusOr<std::size_t> SimilaritySums::Sum(std::span<const RowIndex> picks, const Rivals* rivals) {
  const kernel::FloatColumns columns(kernel_, features_, picks);
  const bool check = !kernel::AlwaysInUnitInterval(kernel_);
  std::vector<std::optional<Offender>> offenders(check ? rows_.size() / kRowsPerBlock + 1 : 0);
  std::atomic<std::size_t> unbeaten = picks.size();
  after_.resize(rows_.size());
  ParallelForBlocks(rows_.size(), kRowsPerBlock, [&](std::size_t first, std::size_t count) {
    const auto rows = rows_.subspan(first, count);
    // What comes after a beaten pick will not be added; the least over all blocks does not depend on their order.
    Matrix<float> tile(unbeaten.load(), count);
    columns.WriteTransposedTile(columns.CopyBlock(rows), 0, tile.view());
    if (check) offenders[first / kRowsPerBlock] = FindOffender(picks, rows, tile.view());
    const std::span<double> sums = std::span(after_).subspan(first, count);
    std::copy_n(sums_.data() + first, count, sums.data());
    LowerTo(AddRows(tile.view(), rivals, first, sums), unbeaten);
  });
  for (const auto& offender : offenders) {
    if (offender) return OutsideUnitInterval(offender->row, offender->pick, offender->value);
  }
  return unbeaten.load();
}

absl::Status SimilaritySums::Add(std::span<const RowIndex> picks) {
  for (std::size_t first = 0; first < picks.size(); first += kPicksAtOnce) {
    const auto some = picks.subspan(first, std::min(kPicksAtOnce, picks.size() - first));
    FULCRUM_RETURN_IF_ERROR(Sum(some, nullptr).status());
    sums_.swap(after_);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::size_t> SimilaritySums::AddUnbeaten(std::span<const RowIndex> picks, const Rivals& rivals) {
  FULCRUM_ASSIGN_OR_RETURN(const std::size_t unbeaten, Sum(picks, &rivals));
  if (unbeaten < picks.size()) {
    FULCRUM_RETURN_IF_ERROR(Add(picks.first(unbeaten)));
  } else {
    sums_.swap(after_);
  }
  return unbeaten;
}

}  // namespace fulcrum::select
