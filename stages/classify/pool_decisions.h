// The decision values of a whole pool, kept between trainings.
//
// After a warm training most multipliers are unchanged. Only the kernel columns of those that changed are computed and
// added; a bound on the accumulated rounding errors decides when everything is computed again.
//
// Update does all of it. A caller that streams blocks of the pool calls Begin, UpdateRows for every block (several at
// once) and Finish, which gives the same values if blocks begin at multiples of kRowsOfBlock. Values are valid after
// Finish; after an update that was not finished, the next one computes everything. Otherwise not thread-safe;
// concurrent reads are.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "stages/classify/svm_model.h"
#include "stages/core/matrix.h"
#include "stages/kernel/features.h"

namespace fulcrum::classify {

class PoolDecisions {
 public:
  struct UpdateReport {
    bool full = false;
    std::string_view reason;          ///< why it was full, or why it was not
    std::size_t columns_updated = 0;  ///< kernel columns computed
    std::size_t columns_total = 0;    ///< support vectors of the model
    double drift_bound = 0;           ///< no value differs by more from that of a full computation
  };

  static constexpr double kDefaultTolerance = 1e-8;

  /// Keeps a reference to `features` (the pool the models are trained on), which must outlive it. Updates may add up
  /// to `tolerance` of rounding error to a decision value before all are computed again; 0 always computes all.
  explicit PoolDecisions(const kernel::Features& features, double tolerance = kDefaultTolerance);

  UpdateReport Update(const SvmModel& model);

  static constexpr std::size_t kRowsOfBlock = KernelProduct::kBlockRows;
  /// Decides what must be computed, and prepares it. `model` must outlive Finish.
  UpdateReport Begin(const SvmModel& model);
  /// Rows in memory, between being read and being used.
  using Block = KernelProduct::Block;
  /// Reads rows first to first + count; nothing if their values do not change. Thread-safe.
  Block ReadRows(std::size_t first, std::size_t count) const;
  /// Brings rows first to first + count of values() up to date. Thread-safe for rows that do not overlap.
  void UpdateRows(std::size_t first, std::size_t count) { UpdateRows(first, count, ReadRows(first, count)); }
  /// The same with the rows that ReadRows read.
  void UpdateRows(std::size_t first, std::size_t count, const Block& rows);
  void Finish();

  std::size_t rows() const { return all_rows_.size(); }
  /// Pool rows x pairs of the last model.
  ConstMatrixView values() const { return {values_.data(), all_rows_.size(), columns_}; }
  /// The next Update is a full one.
  void Reset() { has_values_ = false; }

 private:
  /// Support vectors whose coefficients differ between two models, and by how much.
  struct Change {
    RowList rows;
    Matrix<double> coefficients;
    double mass = 0;  // largest sum of |coefficients| over the pairs
  };
  /// Between Begin and Finish.
  struct Running {
    const SvmModel* model = nullptr;
    bool full = false;
    Change change = {};
    double added_drift = 0;
    std::vector<double> offsets = {};
    std::unique_ptr<KernelProduct> product = {};  // none: the values do not change
  };

  bool SamePairs(const SvmModel& model) const;
  Change ChangeTo(const SvmModel& model) const;
  double RoundingBound(const SvmModel& model, double mass, std::size_t terms) const;
  double AdditionBound(const SvmModel& model) const;
  double DriftOfFull(const SvmModel& model) const;
  MutableMatrixView mutable_values() { return {values_.data(), all_rows_.size(), columns_}; }
  /// Prepares the product for all support vectors, or for the change alone.
  void Prepare(const SvmModel& model, bool full);

  const kernel::Features* features_;
  double tolerance_;
  double largest_squared_norm_ = 0;
  RowList all_rows_;
  std::vector<double> values_;  // rows x columns_ without padding: a cache line per row would be eight times the memory
  std::size_t columns_ = 0;
  SvmModel model_;  // the one behind values_
  bool has_values_ = false;
  double drift_at_full_ = 0;
  double drift_since_ = 0;
  Running running_;
};

}  // namespace fulcrum::classify
