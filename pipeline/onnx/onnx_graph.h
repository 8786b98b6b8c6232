// Builds the graph of an ONNX model: constants and operators, which return the name of the value that they make.
//
// All numbers are computed in double precision, so that a model predicts elsewhere what it predicts here. Used by one
// thread at a time.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "pipeline/onnx/onnx.pb.h"
#include "stages/core/matrix.h"

namespace fulcrum::pipeline {

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

}  // namespace fulcrum::pipeline
