#include "stages/select/similarity_sums.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_format.h"
#include "stages/core/matrix.h"
#include "stages/core/parallel.h"
#include "stages/core/status_macros.h"

namespace fulcrum::select {
namespace {

constexpr std::size_t kRowsPerBlock = 512;
// A normalised kernel may round to just outside [0, 1].
constexpr float kTolerance = 1e-5F;
constexpr double kNoRival = -std::numeric_limits<double>::infinity();

bool IsSimilarity(float value) {
  return value >= -kTolerance && value <= 1 + kTolerance;
}

struct Offender {
  RowIndex row = 0;
  RowIndex pick = 0;
  float value = 0;
};

/// Keeps the first that there was.
void NoteOffender(std::span<const RowIndex> picks, std::span<const RowIndex> rows, MatrixView<const float> tile,
                  std::optional<Offender>& offender) {
  for (std::size_t t = 0; t < tile.rows() && !offender; ++t) {
    const auto row = tile.row(t);
    const auto found = std::find_if_not(row.begin(), row.end(), IsSimilarity);
    if (found != row.end()) offender = {rows[static_cast<std::size_t>(found - row.begin())], picks[t], *found};
  }
}

/// A rival's gain l + 1 - factor sum is above a pick's where its sum is below its ceiling (l + 1) / factor less the
/// pick's gain / factor.
std::vector<double> CeilingsOf(const Rivals& rivals, std::size_t first, std::size_t count) {
  std::vector<double> ceilings(count, kNoRival);
  for (std::size_t i = 0; i < count; ++i) {
    if (rivals.present[first + i]) ceilings[i] = (rivals.scores[first + i] + 1) / rivals.factor;
  }
  return ceilings;
}

/// So many candidates' sums and ceilings stay in registers while they see all picks.
constexpr std::size_t kLanes = 16;
using Lanes = std::array<double, kLanes>;

/// Adds the lanes of the tile's rows one by one, as long as no sum is below its ceiling less the level of the row;
/// returns how many.
std::size_t AddLanes(MatrixView<const float> tile, std::size_t first, std::span<const double> levels,
                     const Lanes& ceilings, Lanes& sums) {
  for (std::size_t t = 0; t < tile.rows(); ++t) {
    const float* const values = tile.row(t).data() + first;
    std::int64_t below = 0;  // as wide as what it counts, which makes vector code of the loop
// Unrolled by itself the loop would be scalar code.
#pragma GCC unroll 1
    for (std::size_t i = 0; i < kLanes; ++i) {
      below |= static_cast<std::int64_t>(sums[i] < ceilings[i] - levels[t]);
      sums[i] += static_cast<double>(std::max(values[i], 0.0F));
    }
    if (below != 0) return t;
  }
  return tile.rows();
}

/// The same for the whole tile, whose columns are a multiple of kLanes; sums may be fewer.
std::size_t AddRows(MatrixView<const float> tile, std::span<const double> levels, std::span<const double> ceilings,
                    std::span<double> sums) {
  std::size_t unbeaten = tile.rows();
  for (std::size_t first = 0; first < sums.size(); first += kLanes) {
    const std::size_t count = std::min(kLanes, sums.size() - first);
    Lanes some{}, limits;
    limits.fill(kNoRival);
    std::copy_n(sums.data() + first, count, some.begin());
    if (!ceilings.empty()) std::copy_n(ceilings.data() + first, count, limits.begin());
    unbeaten = std::min(unbeaten, AddLanes(tile, first, levels, limits, some));
    std::copy_n(some.begin(), count, sums.data() + first);
  }
  return unbeaten;
}

/// By pick; nobody beats the very first.
std::vector<double> LevelsOf(const Rivals* rivals, std::size_t picks) {
  std::vector<double> levels(picks, 0.0);
  for (std::size_t t = 1; rivals && t < picks; ++t) levels[t] = rivals->gains[t] / rivals->factor;
  if (!levels.empty()) levels[0] = std::numeric_limits<double>::infinity();
  return levels;
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
  const std::vector<double> levels = LevelsOf(rivals, picks.size());
  std::atomic<std::size_t> unbeaten = picks.size();
  after_.resize(rows_.size());
  ParallelForBlocks(rows_.size(), kRowsPerBlock, [&](std::size_t first, std::size_t count) {
    const auto rows = rows_.subspan(first, count);
    const kernel::FloatBlock block = columns.CopyBlock(rows);
    const std::span<double> sums = std::span(after_).subspan(first, count);
    std::copy_n(sums_.data() + first, count, sums.data());
    const std::vector<double> ceilings = rivals ? CeilingsOf(*rivals, first, count) : std::vector<double>();
    Matrix<float> whole = Matrix<float>::Zero(std::min(kPicksAtOnce, picks.size()), kRowsPerBlock);
    // What comes after a beaten pick will not be added; the least over all blocks does not depend on their order.
    std::size_t done = 0;
    for (std::size_t wanted = unbeaten.load(); done < wanted; wanted = unbeaten.load()) {
      const std::size_t next = std::min(kPicksAtOnce, wanted - done);
      const MatrixView<float> tile = whole.view().Block(0, 0, next, count);
      columns.WriteTransposedTile(block, done, tile);
      if (check) NoteOffender(picks.subspan(done, next), rows, tile, offenders[first / kRowsPerBlock]);
      const std::size_t stood =
          AddRows(std::as_const(whole).view().Rows(0, next), std::span(levels).subspan(done, next), ceilings, sums);
      if (stood < next) LowerTo(done + stood, unbeaten);
      done += next;
    }
  });
  for (const auto& offender : offenders) {
    if (offender) return OutsideUnitInterval(offender->row, offender->pick, offender->value);
  }
  return unbeaten.load();
}

absl::Status SimilaritySums::Add(std::span<const RowIndex> picks) {
  if (picks.empty()) return absl::OkStatus();
  FULCRUM_RETURN_IF_ERROR(Sum(picks, nullptr).status());
  sums_.swap(after_);
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
