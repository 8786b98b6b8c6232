// For every candidate of a group the sum of its similarities to the chosen rows, updated by many picks at a time.
//
// Not thread-safe for Add; concurrent reads are. Keeps references to features and rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "stages/core/communicator.h"
#include "stages/core/rows.h"
#include "stages/kernel/features.h"
#include "stages/kernel/kernel_function.h"
#include "stages/kernel/kernel_tiles.h"

namespace fulcrum::select {

/// Candidates that were not considered while a sequence of picks was made, and what they are compared with.
struct Rivals {
  std::span<const std::uint8_t> present;  ///< by position: this one could have been picked instead
  std::span<const double> scores;         ///< l, by position
  double factor = 0;                      ///< alpha / M, above 0
  std::span<const double> gains;          ///< of the picks, each as it was picked
};

class SimilaritySums {
 public:
  SimilaritySums(const kernel::KernelFunction& kernel, const kernel::Features& features, std::span<const RowIndex> rows)
      : kernel_(kernel), features_(features), rows_(rows), sums_(rows.size(), 0.0) {}

  /// Sets the sums so far, by position.
  void StartFrom(std::vector<double> sums) { sums_ = std::move(sums); }

  /// Adds K(x, pick) of every pick to every candidate's sum, in blocks of candidates, in parallel. InvalidArgument
  /// if a value lies outside [0, 1].
  absl::Status Add(std::span<const RowIndex> picks);

  /// Adds picks up to the first one (but not the very first) that a rival would have beaten, whose gain was the larger
  /// at that moment. Returns how many were added. `peers` have the other candidates of the group.
  absl::StatusOr<std::size_t> AddUnbeaten(std::span<const RowIndex> picks, const Rivals& rivals,
                                          const Communicator& peers = OneProcess());

  /// By position.
  std::span<const double> values() const { return sums_; }
  /// The same, to be kept when this ends.
  std::vector<double> Release() { return std::move(sums_); }

  /// A tile of so many picks and a block of candidates is half a megabyte: it is summed before it leaves the cache.
  static constexpr std::size_t kPicksAtOnce = kernel::KernelTiles<float>::kRows;

 private:
  /// Writes the sums with the picks to after_; returns how many picks no rival would have beaten, all without rivals.
  absl::StatusOr<std::size_t> Sum(std::span<const RowIndex> picks, const Rivals* rivals);
  absl::Status OutsideUnitInterval(RowIndex row, RowIndex pick, double value) const;

  kernel::KernelFunction kernel_;
  const kernel::Features& features_;
  std::span<const RowIndex> rows_;
  std::vector<double> sums_;
  std::vector<double> after_;  // memory that Sum writes to, kept between calls
};

// Sums of similarities that are kept between rounds: of a group's candidates to the rows given then, labeled or picked.
//
// The next round computes only the changes: all similarities of candidates that entered, and those of all candidates to
// rows that were added to or removed from the given ones. Not thread-safe.

/// The given rows, ascending, and the sums by row.
struct GivenSums {
  RowList given = {};
  std::vector<double> sums = {};
};

class SimilarityMemory {
 public:
  /// The sums of `rows` to all of `given`, both ascending, in the order of rows. What was remembered goes into them.
  /// InvalidArgument if a similarity lies outside [0, 1].
  absl::StatusOr<std::vector<double>> Recall(const kernel::KernelFunction& kernel, const kernel::Features& features,
                                             std::span<const RowIndex> rows, std::span<const RowIndex> given);

  /// `rows` and the given ones are ascending. Two sums per row: to the labeled rows alone, and with the picks, which
  /// may get labels of other classes; the next round uses the one that needs less work.
  void Remember(std::span<const RowIndex> rows, GivenSums labeled, GivenSums with_picks);

  /// The number of given rows of the last Recall whose similarities were known; zero in a second call.
  std::size_t TakeCarried() { return std::exchange(carried_, 0); }

 private:
  RowList rows_;
  GivenSums labeled_, with_picks_;
  std::size_t carried_ = 0;
};

}  // namespace fulcrum::select
