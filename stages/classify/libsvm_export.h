// Export of a model to LIBSVM's text format, for svm-predict and all bindings of LIBSVM. Pure functions, thread-safe.
#pragma once

#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "stages/classify/svm_model.h"
#include "stages/kernel/features.h"

namespace fulcrum::classify {

/// Returns the text of a model that svm_load_model reads, with the same decision values. LIBSVM's labels are
/// `class_labels` by class index, or the class indices if it is empty. rbf has gamma = 1 / sigma^2, poly gamma = 1. A
/// cosine model becomes a linear model on unit rows: its input must be scaled to unit length. Returns InvalidArgument
/// for a normalised kernel, which LIBSVM does not have, and Unimplemented if only the inner
/// products of the features are known.
absl::StatusOr<std::string> FormatLibsvmModel(const SvmModel& model, const kernel::Features& support_features,
                                              std::span<const int> class_labels = {});

absl::Status ExportLibsvmModel(const SvmModel& model, const kernel::Features& support_features, const std::string& path,
                               std::span<const int> class_labels = {});

}  // namespace fulcrum::classify
