// A trained model as an ONNX file, with the preparation of the features in it: other programs predict from rows as they
// are in the pool's files.
//
// Standard operators of opset 13 only. Input `features` (rows x features, float). Outputs: `label` (the name of the
// class), `decision_values` (per pair of classes, float) and, if the model has them, `probabilities` (per class,
// float). Pure functions, thread-safe.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "stages/classify/model_file.h"
#include "stages/ingest/normalize.h"

namespace fulcrum::pipeline {

struct OnnxDescription {
  std::vector<std::string> classes = {};        ///< by class index
  std::vector<std::string> feature_names = {};  ///< in order; empty if the features have no names
  std::size_t features = 0;                     ///< columns of a row, before it is prepared
  /// Stored with the model as metadata.
  std::vector<std::pair<std::string, std::string>> metadata = {};
};

/// `normalizer` prepares rows as those that the model was trained on were prepared. InvalidArgument for a normalised
/// linear or polynomial kernel.
absl::StatusOr<std::string> FormatOnnxModel(const classify::SavedSvm& saved, const ingest::Normalizer& normalizer,
                                            const OnnxDescription& description);

}  // namespace fulcrum::pipeline
