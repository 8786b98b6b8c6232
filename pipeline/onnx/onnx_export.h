// A trained model as an ONNX file, with the preparation of the features in it: other programs predict from rows as they
// are in the pool's files.
//
// Standard operators of opset 13 only. Input `features` (rows x features, float). Outputs: `label` (the name of the
// class), `decision_values` (per pair of classes, float) and, if the model has them, `probabilities` (per class,
// float). Pure functions, thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "pipeline/onnx/onnx.pb.h"
#include "stages/classify/model_file.h"
#include "stages/core/matrix.h"
#include "stages/ingest/normalize.h"

namespace fulcrum::pipeline {

// Builds the graph of an ONNX model: constants and operators, which return the name of the value that they make.
//
// All numbers are computed in double precision, so that a model predicts elsewhere what it predicts here. Used by one
// thread at a time.

/// The name of a value in the graph.
using OnnxValue = std::string;

class OnnxGraph {
 public:
  explicit OnnxGraph(onnx::GraphProto& graph) : graph_(graph) {}

  OnnxValue Number(double value);
  OnnxValue Row(std::span<const double> values);
  OnnxValue Table(ConstMatrixView values);
  OnnxValue Integers(std::span<const std::int64_t> values);
  OnnxValue Booleans(const std::vector<bool>& values);
  OnnxValue Texts(std::span<const std::string> values);

  OnnxValue Add(const OnnxValue& a, const OnnxValue& b) { return Apply("Add", {a, b}); }
  OnnxValue Subtract(const OnnxValue& a, const OnnxValue& b) { return Apply("Sub", {a, b}); }
  OnnxValue Multiply(const OnnxValue& a, const OnnxValue& b) { return Apply("Mul", {a, b}); }
  OnnxValue Divide(const OnnxValue& a, const OnnxValue& b) { return Apply("Div", {a, b}); }
  OnnxValue Product(const OnnxValue& a, const OnnxValue& b) { return Apply("MatMul", {a, b}); }
  OnnxValue Apply(const std::string& op, std::vector<OnnxValue> inputs,
                  std::vector<onnx::AttributeProto> attributes = {});
  /// The sum over the last dimension, which stays with size 1.
  OnnxValue SumOfLast(const OnnxValue& value);
  OnnxValue Cast(const OnnxValue& value, onnx::TensorProto::DataType type);

  /// An input or output whose first size is the number of rows; `columns` 0: it has no second one.
  void AddInput(const OnnxValue& name, onnx::TensorProto::DataType type, std::size_t columns, const std::string& doc);
  void AddOutput(const OnnxValue& value, const std::string& name, onnx::TensorProto::DataType type, std::size_t columns,
                 const std::string& doc);

  static onnx::AttributeProto Attribute(const std::string& name, std::int64_t value);
  static onnx::AttributeProto Attribute(const std::string& name, std::span<const std::int64_t> values);

 private:
  OnnxValue NewName();
  onnx::TensorProto& NewConstant(onnx::TensorProto::DataType type, std::span<const std::int64_t> dims);

  onnx::GraphProto& graph_;
  int names_ = 0;
};

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
