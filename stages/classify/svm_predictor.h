// Batched prediction: decision values of many rows by GEMM, votes, and probabilities.
//
// Pure functions, thread-safe; work is tiled under oneTBB, and the results do not depend on the number of threads.
#pragma once

#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "stages/classify/svm_model.h"
#include "stages/core/matrix.h"
#include "stages/core/rows.h"
#include "stages/kernel/features.h"

namespace fulcrum::classify {

/// out(i, p) = decision value of pair p for row rows[i] of `features`. The support rows of the model are rows of
/// `support_features`; the predicted rows may be of another set (a test set) with the same kind and dimension.
void DecisionValues(const SvmModel& model, const kernel::Features& support_features, const kernel::Features& features,
                    std::span<const RowIndex> rows, MutableMatrixView out);

/// The same for all rows of `features`, in order: rows x pairs.
Matrix<double> DecisionValues(const SvmModel& model, const kernel::Features& support_features,
                              const kernel::Features& features);

/// Returns the class with the most votes of the pairs; ties go to the smaller class.
ClassIndex VoteClass(const SvmModel& model, std::span<const double> decisions);

/// VoteClass of every row of `decisions` (rows x pairs), on the calling thread.
void VoteClasses(const SvmModel& model, ConstMatrixView decisions, std::span<ClassIndex> classes);
/// The same in parallel.
std::vector<ClassIndex> VoteClasses(const SvmModel& model, ConstMatrixView decisions);

/// margins[i] = the smallest decision value of classes[i], as VoteClasses gives them, against another class: 0 or less
/// is the greatest doubt. With two classes it is |decision|. On the calling thread.
void VoteMargins(const SvmModel& model, ConstMatrixView decisions, std::span<const ClassIndex> classes,
                 std::span<double> margins);

/// Returns the probabilities of all classes of the campaign (a class without labels has 0), rows x class_count. With
/// two classes: Platt's sigmoid; with more: coupled. Returns FailedPrecondition if the model has no Platt parameters.
absl::StatusOr<Matrix<double>> Probabilities(const SvmModel& model, ConstMatrixView decisions);

}  // namespace fulcrum::classify
