#include <algorithm>
#include <array>
#include <atomic>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_format.h"
#include "stages/core/matrix.h"
#include "stages/core/parallel.h"
#include "stages/core/rows.h"
#include "stages/core/status_macros.h"
#include "stages/select/greedy/streamed_greedy.h"

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

/// A rival's gain l + 1 - factor sum is above a pick's if its sum is below its ceiling (l + 1) / factor less the
/// pick's gain / factor.
void WriteCeilings(const Rivals& rivals, std::size_t first, std::span<double> ceilings) {
  for (std::size_t i = 0; i < ceilings.size(); ++i) {
    if (rivals.present[first + i]) ceilings[i] = (rivals.scores[first + i] + 1) / rivals.factor;
  }
}

/// The sums of so many candidates stay in registers while some picks are added. Blocks have a multiple of it, so that
/// loops need no check for the end.
constexpr std::size_t kLanes = 16;
using Lanes = std::span<double, kLanes>;
using Ceilings = std::span<const double, kLanes>;
/// Some rows of a tile, which stay in the nearest cache while they are added to all candidates of the block. Their
/// float32 sum is as accurate as its terms.
constexpr std::size_t kRowsAtOnce = 8;

/// How many of the tile's rows can be added, one by one, as long as no sum is below its ceiling less the level of the
/// row.
std::size_t RowsUnbeaten(MatrixView<const float> tile, std::size_t first, std::span<const double> levels,
                         Ceilings ceilings, std::span<const double, kLanes> before) {
  std::array<double, kLanes> sums;
  std::ranges::copy(before, sums.begin());
  for (std::size_t t = 0; t < tile.rows(); ++t) {
    for (std::size_t i = 0; i < kLanes; ++i) {
      if (sums[i] < ceilings[i] - levels[t]) return t;
    }
    const float* const values = tile.row(t).data() + first;
    for (std::size_t i = 0; i < kLanes; ++i) sums[i] += static_cast<double>(std::max(values[i], 0.0F));
  }
  return tile.rows();
}

/// Always in the same way, so that the sum of a candidate does not depend on those next to it.
void AddTogether(MatrixView<const float> tile, std::size_t first, Lanes sums) {
  std::array<float, kLanes> sum{};
  for (std::size_t t = 0; t < tile.rows(); ++t) {
    const float* const values = tile.row(t).data() + first;
    for (std::size_t i = 0; i < kLanes; ++i) sum[i] += values[i] > 0 ? values[i] : 0;
  }
  for (std::size_t i = 0; i < kLanes; ++i) sums[i] += static_cast<double>(sum[i]);
}

/// Whether no sum falls below its ceiling less any of the levels. Sums only grow, so checking the start is enough.
bool NoneCanBeBelow(Lanes sums, Ceilings ceilings, double lowest_level) {
  std::int64_t below = 0;  // as wide as what it counts, which makes vector code of the loop
// If the compiler unrolls this loop, it is scalar code.
#pragma GCC unroll 1
  for (std::size_t i = 0; i < kLanes; ++i) {
    below |= static_cast<std::int64_t>(sums[i] < ceilings[i] - lowest_level);
  }
  return below == 0;
}

/// Adds a few rows of a tile; returns how many of them no rival would have beaten.
std::size_t AddSomeRows(MatrixView<const float> tile, std::span<const double> levels, std::span<const double> ceilings,
                        std::span<double> sums) {
  const double lowest_level = *std::ranges::min_element(levels);
  std::size_t unbeaten = tile.rows();
  for (std::size_t first = 0; first < sums.size(); first += kLanes) {
    const Lanes some = sums.subspan(first).first<kLanes>();
    const Ceilings limits = ceilings.subspan(first).first<kLanes>();
    if (!NoneCanBeBelow(some, limits, lowest_level)) {
      unbeaten = std::min(unbeaten, RowsUnbeaten(tile, first, levels, limits, some));
    }
    AddTogether(tile, first, some);
  }
  return unbeaten;
}

/// The same for a whole tile. The sums are of no use if a row was beaten.
std::size_t AddRows(MatrixView<const float> tile, std::span<const double> levels, std::span<const double> ceilings,
                    std::span<double> sums) {
  for (std::size_t first = 0; first < tile.rows(); first += kRowsAtOnce) {
    const std::size_t count = std::min(kRowsAtOnce, tile.rows() - first);
    const std::size_t unbeaten = AddSomeRows(tile.Rows(first, count), levels.subspan(first, count), ceilings, sums);
    if (unbeaten < count) return first + unbeaten;
  }
  return tile.rows();
}

/// By pick; the very first cannot be beaten.
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
      "%d of the pool (counted from 0). Use the rbf kernel, or normalize the kernel if all values are positive.",
      kernel::DescribeKernel(kernel_), value, row, pick));
}

absl::StatusOr<std::size_t> SimilaritySums::Sum(std::span<const RowIndex> picks, const Rivals* rivals) {
  const kernel::KernelTiles<float> tiles(kernel_, features_, picks);
  const bool check = !kernel::AlwaysInUnitInterval(kernel_);
  std::vector<std::optional<Offender>> offenders(check ? rows_.size() / kRowsPerBlock + 1 : 0);
  const std::vector<double> levels = LevelsOf(rivals, picks.size());
  std::atomic<std::size_t> unbeaten = picks.size();
  after_.resize(rows_.size());
  ParallelForBlocks(rows_.size(), kRowsPerBlock, [&](std::size_t first, std::size_t count) {
    const auto rows = rows_.subspan(first, count);
    std::array<double, kRowsPerBlock> sums{}, ceilings;
    std::copy_n(sums_.data() + first, count, sums.data());
    ceilings.fill(kNoRival);
    if (rivals) WriteCeilings(*rivals, first, std::span(ceilings).first(count));
    Matrix<float> whole = Matrix<float>::Zero(std::min(kPicksAtOnce, picks.size()), kRowsPerBlock);
    const auto add = [&](std::size_t done, MatrixView<const float> tile) {
      const std::size_t next = tile.rows();
      if (check) NoteOffender(picks.subspan(done, next), rows, tile, offenders[first / kRowsPerBlock]);
      const std::size_t stood =
          AddRows(std::as_const(whole).view().Rows(0, next), std::span(levels).subspan(done, next), ceilings, sums);
      if (stood < next) LowerTo(done + stood, unbeaten);
    };
    // What comes after a beaten pick will not be added; the least over all blocks does not depend on their order.
    const auto wanted = [&] { return unbeaten.load(); };
    tiles.ForEachTransposedTile(tiles.Pack(rows), whole.view().Cols(0, count), wanted, add);
    std::copy_n(sums.data(), count, after_.data() + first);
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

absl::StatusOr<std::size_t> SimilaritySums::AddUnbeaten(std::span<const RowIndex> picks, const Rivals& rivals,
                                                        const Communicator& peers) {
  const absl::StatusOr<std::size_t> of_rank = Sum(picks, &rivals);
  FULCRUM_RETURN_IF_ERROR(AgreeOn(peers, of_rank.status()));
  const std::size_t unbeaten = std::ranges::min(ShareValue(peers, *of_rank));
  if (unbeaten < picks.size()) {
    FULCRUM_RETURN_IF_ERROR(Add(picks.first(unbeaten)));
  } else {
    sums_.swap(after_);
  }
  return unbeaten;
}

namespace {

absl::StatusOr<std::vector<double>> SumsAfresh(const kernel::KernelFunction& kernel, const kernel::Features& features,
                                               std::span<const RowIndex> rows, std::span<const RowIndex> given) {
  SimilaritySums sums(kernel, features, rows);
  FULCRUM_RETURN_IF_ERROR(sums.Add(given));
  return sums.Release();
}

/// What separates sums known before from those wanted.
struct Difference {
  RowList added, gone;
  /// How many similarities have to be looked at, with so many candidates that entered.
  double Work(std::size_t rows, std::size_t entered, std::size_t known) const {
    return static_cast<double>(entered) * static_cast<double>(known) +
           static_cast<double>(rows) * static_cast<double>(added.size() + gone.size());
  }
};

Difference Between(std::span<const RowIndex> given, std::span<const RowIndex> known) {
  return {.added = RowsOnlyIn(given, known), .gone = RowsOnlyIn(known, given)};
}

}  // namespace

absl::StatusOr<std::vector<double>> SimilarityMemory::Recall(const kernel::KernelFunction& kernel,
                                                             const kernel::Features& features,
                                                             std::span<const RowIndex> rows,
                                                             std::span<const RowIndex> given) {
  const RowList entered = RowsOnlyIn(rows, rows_);
  double least_work = static_cast<double>(rows.size()) * static_cast<double>(given.size());
  const GivenSums* known = nullptr;
  Difference difference;
  for (const GivenSums* sums : {&labeled_, &with_picks_}) {
    Difference other = Between(given, sums->given);
    const double work = other.Work(rows.size(), entered.size(), sums->given.size());
    if (!(work < least_work)) continue;
    least_work = work;
    known = sums;
    difference = std::move(other);
  }
  carried_ = known ? given.size() - difference.added.size() : 0;
  if (!known) return SumsAfresh(kernel, features, rows, given);
  FULCRUM_ASSIGN_OR_RETURN(const std::vector<double> of_entered, SumsAfresh(kernel, features, entered, known->given));
  FULCRUM_ASSIGN_OR_RETURN(const std::vector<double> to_gone, SumsAfresh(kernel, features, rows, difference.gone));
  std::vector<double> sums = CarryValues(rows, rows_, known->sums, of_entered);
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] -= to_gone[i];
  SimilaritySums with_added(kernel, features, rows);
  with_added.StartFrom(std::move(sums));
  FULCRUM_RETURN_IF_ERROR(with_added.Add(difference.added));
  return with_added.Release();
}

void SimilarityMemory::Remember(std::span<const RowIndex> rows, GivenSums labeled, GivenSums with_picks) {
  rows_.assign(rows.begin(), rows.end());
  labeled_ = std::move(labeled);
  with_picks_ = std::move(with_picks);
}

}  // namespace fulcrum::select
