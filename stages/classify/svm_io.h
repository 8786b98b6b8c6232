// Saving and loading a model together with the features of its support vectors, so that it predicts without its pool.
//
// The format is binary and little-endian: the text "FULCRUMSVM", a version, the model, a checksum over all of it. Pure
// functions, thread-safe.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "stages/classify/svm_model.h"
#include "stages/core/rows.h"
#include "stages/kernel/features.h"

namespace fulcrum::classify {

/// A model that was saved. Its support_rows are rows of its own `features`, 0, 1, 2, ...
struct SavedSvm {
  SvmModel model;
  std::unique_ptr<const kernel::DenseFeatures> features;
  RowList pool_rows;  ///< what support_rows were in the pool the model was trained on
};

/// `support_features` is the pool the model was trained on. Support vectors of a sparse one are written out.
absl::StatusOr<std::string> SerializeSvm(const SvmModel& model, const kernel::Features& support_features);

/// InvalidArgument where the bytes are no model or of a newer version, DataLoss where they are damaged or cut short.
absl::StatusOr<SavedSvm> ParseSvm(std::string_view bytes);

absl::Status SaveSvm(const SvmModel& model, const kernel::Features& support_features, const std::string& path);
absl::StatusOr<SavedSvm> LoadSvm(const std::string& path);

}  // namespace fulcrum::classify
