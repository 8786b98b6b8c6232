// LIBSVM behind our own types: the reference of the classifier's tests and benchmarks. Nothing else may link it.
#pragma once

#include <libsvm/svm.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "stages/classify/svm_model.h"
#include "stages/core/matrix.h"
#include "stages/core/rows.h"

namespace fulcrum::classify {

/// A model of LIBSVM. Owns the rows it was trained on, since LIBSVM only points to them.
class LibsvmOracle {
 public:
  /// Trains on the rows of `features` that have a label. The kernel may be rbf, linear or poly, not normalised.
  static LibsvmOracle Train(const SvmParameters& parameters, ConstMatrixView features,
                            std::span<const ClassIndex> labels, bool probabilities = false);
  /// Reads a model file; ok() is false if LIBSVM does not take it.
  static LibsvmOracle Load(const std::string& path);

  bool ok() const { return model_ != nullptr; }
  std::size_t class_count() const;
  std::size_t support_count() const;
  /// Decision values of the pairs (i, j), i < j in the order of class labels; positive for i.
  std::vector<double> Decisions(std::span<const double> x) const;
  int Predict(std::span<const double> x) const;
  /// By ascending class label.
  std::vector<double> Probabilities(std::span<const double> x) const;
  /// Signed multipliers y * alpha by row of `features`, for a model of two classes; positive for the smaller label.
  std::vector<double> SignedMultipliers() const;
  /// LIBSVM's own form of a row, for timing its predictions alone.
  static std::vector<svm_node> ToNodes(std::span<const double> x);
  const svm_model* get() const { return model_.get(); }

 private:
  struct Delete {
    void operator()(svm_model* model) const;
  };
  std::vector<std::size_t> SlotsByLabel() const;

  std::vector<std::vector<svm_node>> nodes_;
  std::vector<std::size_t> rows_;
  std::size_t total_rows_ = 0;
  std::unique_ptr<svm_model, Delete> model_;
};

}  // namespace fulcrum::classify
