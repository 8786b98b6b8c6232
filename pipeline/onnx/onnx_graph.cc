#include <bit>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pipeline/onnx/onnx_export.h"

namespace fulcrum::pipeline {
namespace {

static_assert(std::endian::native == std::endian::little, "ONNX files are little-endian");

template <typename T>
std::string Bytes(std::span<const T> values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size_bytes());
}

void Describe(const OnnxValue& name, onnx::TensorProto::DataType type, std::size_t columns, const std::string& doc,
              onnx::ValueInfoProto& info) {
  info.set_name(name);
  info.set_doc_string(doc);
  onnx::TypeProto::Tensor& tensor = *info.mutable_type()->mutable_tensor_type();
  tensor.set_elem_type(type);
  tensor.mutable_shape()->add_dim()->set_dim_param("rows");
  if (columns > 0) tensor.mutable_shape()->add_dim()->set_dim_value(static_cast<std::int64_t>(columns));
}

}  // namespace

OnnxValue OnnxGraph::NewName() {
  return absl::StrCat("v", ++names_);
}

onnx::TensorProto& OnnxGraph::NewConstant(onnx::TensorProto::DataType type, std::span<const std::int64_t> dims) {
  onnx::TensorProto& constant = *graph_.add_initializer();
  constant.set_name(NewName());
  constant.set_data_type(type);
  constant.mutable_dims()->Add(dims.begin(), dims.end());
  return constant;
}

OnnxValue OnnxGraph::Number(double value) {
  onnx::TensorProto& constant = NewConstant(onnx::TensorProto::DOUBLE, {});
  constant.set_raw_data(Bytes(std::span<const double>(&value, 1)));
  return constant.name();
}

OnnxValue OnnxGraph::Row(std::span<const double> values) {
  const std::int64_t dims[] = {static_cast<std::int64_t>(values.size())};
  onnx::TensorProto& constant = NewConstant(onnx::TensorProto::DOUBLE, dims);
  constant.set_raw_data(Bytes(values));
  return constant.name();
}

OnnxValue OnnxGraph::Table(ConstMatrixView values) {
  const std::int64_t dims[] = {static_cast<std::int64_t>(values.rows()), static_cast<std::int64_t>(values.cols())};
  onnx::TensorProto& constant = NewConstant(onnx::TensorProto::DOUBLE, dims);
  std::string bytes;
  for (std::size_t row = 0; row < values.rows(); ++row) bytes += Bytes(std::span<const double>(values.row(row)));
  constant.set_raw_data(std::move(bytes));
  return constant.name();
}

OnnxValue OnnxGraph::Integers(std::span<const std::int64_t> values) {
  const std::int64_t dims[] = {static_cast<std::int64_t>(values.size())};
  onnx::TensorProto& constant = NewConstant(onnx::TensorProto::INT64, dims);
  constant.set_raw_data(Bytes(values));
  return constant.name();
}

OnnxValue OnnxGraph::Booleans(const std::vector<bool>& values) {
  const std::int64_t dims[] = {static_cast<std::int64_t>(values.size())};
  onnx::TensorProto& constant = NewConstant(onnx::TensorProto::BOOL, dims);
  for (const bool value : values) constant.mutable_raw_data()->push_back(value ? 1 : 0);
  return constant.name();
}

OnnxValue OnnxGraph::Texts(std::span<const std::string> values) {
  const std::int64_t dims[] = {static_cast<std::int64_t>(values.size())};
  onnx::TensorProto& constant = NewConstant(onnx::TensorProto::STRING, dims);
  for (const std::string& value : values) constant.add_string_data(value);
  return constant.name();
}

OnnxValue OnnxGraph::Apply(const std::string& op, std::vector<OnnxValue> inputs,
                           std::vector<onnx::AttributeProto> attributes) {
  onnx::NodeProto& node = *graph_.add_node();
  node.set_op_type(op);
  const OnnxValue output = NewName();
  node.set_name(absl::StrCat(op, "_", output));
  for (OnnxValue& input : inputs) node.add_input(std::move(input));
  node.add_output(output);
  for (onnx::AttributeProto& attribute : attributes) *node.add_attribute() = std::move(attribute);
  return output;
}

OnnxValue OnnxGraph::SumOfLast(const OnnxValue& value) {
  const std::int64_t last[] = {-1};
  return Apply("ReduceSum", {value, Integers(last)}, {Attribute("keepdims", 1)});
}

OnnxValue OnnxGraph::Cast(const OnnxValue& value, onnx::TensorProto::DataType type) {
  return Apply("Cast", {value}, {Attribute("to", type)});
}

void OnnxGraph::AddInput(const OnnxValue& name, onnx::TensorProto::DataType type, std::size_t columns,
                         const std::string& doc) {
  Describe(name, type, columns, doc, *graph_.add_input());
}

void OnnxGraph::AddOutput(const OnnxValue& value, const std::string& name, onnx::TensorProto::DataType type,
                          std::size_t columns, const std::string& doc) {
  onnx::NodeProto& node = *graph_.add_node();
  node.set_op_type("Identity");
  node.set_name(name);
  node.add_input(value);
  node.add_output(name);
  Describe(name, type, columns, doc, *graph_.add_output());
}

onnx::AttributeProto OnnxGraph::Attribute(const std::string& name, std::int64_t value) {
  onnx::AttributeProto attribute;
  attribute.set_name(name);
  attribute.set_type(onnx::AttributeProto::INT);
  attribute.set_i(value);
  return attribute;
}

onnx::AttributeProto OnnxGraph::Attribute(const std::string& name, std::span<const std::int64_t> values) {
  onnx::AttributeProto attribute;
  attribute.set_name(name);
  attribute.set_type(onnx::AttributeProto::INTS);
  attribute.mutable_ints()->Add(values.begin(), values.end());
  return attribute;
}

}  // namespace fulcrum::pipeline
