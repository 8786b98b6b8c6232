#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>

#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "nlohmann/json.hpp"
#include "pipeline/web/web_site.h"

namespace fulcrum::pipeline {
namespace {

namespace pb = google::protobuf;
using nlohmann::json;

constexpr char kApiPackage[] = "fulcrum.v1";

template <typename Descriptor>
std::string CommentOf(const Descriptor& descriptor) {
  pb::SourceLocation location;
  if (!descriptor.GetSourceLocation(&location)) return {};
  // A comment is wrapped in its file; a description is wrapped by the viewer.
  return absl::StrReplaceAll(absl::StripAsciiWhitespace(location.leading_comments), {{"\n ", " "}});
}

class Writer {
 public:
  json Method(const pb::MethodDescriptor& method) {
    const char* const type = method.server_streaming() ? "application/connect+json" : "application/json";
    std::string text = CommentOf(method);
    if (method.server_streaming()) {
      absl::StrAppend(&text, " Request and responses are enveloped: a byte of flags, four bytes of length, and JSON.");
    }
    const json error = {{"description", "An error, with the status code of its kind."},
                        {"content", {{"application/json", {{"schema", {{"$ref", "#/components/schemas/Error"}}}}}}}};
    return {{"operationId", absl::StrCat(method.service()->name(), "_", method.name())},
            {"tags", {method.service()->name()}},
            {"description", text},
            {"requestBody", {{"required", true}, {"content", {{type, {{"schema", Reference(*method.input_type())}}}}}}},
            {"responses",
             {{"200",
               {{"description", CommentOf(*method.output_type())},
                {"content", {{type, {{"schema", Reference(*method.output_type())}}}}}}},
              {"default", error}}}};
  }

  /// All messages and enumerations that were referred to.
  json TakeSchemas() { return std::move(schemas_); }

 private:
  json Reference(const pb::Descriptor& type) {
    const std::string& name = type.full_name();
    if (name == "google.protobuf.Timestamp") return {{"type", "string"}, {"format", "date-time"}};
    if (name == "google.protobuf.Duration") return {{"type", "string"}, {"examples", {"90s"}}};
    if (name == "google.protobuf.FieldMask") return {{"type", "string"}, {"examples", {"stop.labels,question"}}};
    if (known_.insert(name).second) {
      json properties = json::object();
      for (int i = 0; i < type.field_count(); ++i) properties[type.field(i)->json_name()] = Field(*type.field(i));
      schemas_[name] = {{"type", "object"}, {"description", CommentOf(type)}, {"properties", properties}};
    }
    return {{"$ref", "#/components/schemas/" + name}};
  }

  json Reference(const pb::EnumDescriptor& type) {
    if (known_.insert(type.full_name()).second) {
      json values = json::array();
      std::string text = CommentOf(type);
      for (int i = 0; i < type.value_count(); ++i) {
        values.push_back(type.value(i)->name());
        absl::StrAppend(&text, "\n- `", type.value(i)->name(), "`: ", CommentOf(*type.value(i)));
      }
      schemas_[type.full_name()] = {{"type", "string"}, {"description", text}, {"enum", values}};
    }
    return {{"$ref", "#/components/schemas/" + type.full_name()}};
  }

  json Value(const pb::FieldDescriptor& field) {
    switch (field.cpp_type()) {
      case pb::FieldDescriptor::CPPTYPE_MESSAGE:
        return Reference(*field.message_type());
      case pb::FieldDescriptor::CPPTYPE_ENUM:
        return Reference(*field.enum_type());
      case pb::FieldDescriptor::CPPTYPE_BOOL:
        return {{"type", "boolean"}};
      case pb::FieldDescriptor::CPPTYPE_STRING:
        if (field.type() == pb::FieldDescriptor::TYPE_BYTES) return {{"type", "string"}, {"contentEncoding", "base64"}};
        return {{"type", "string"}};
      case pb::FieldDescriptor::CPPTYPE_INT64:
      case pb::FieldDescriptor::CPPTYPE_UINT64:
        // JavaScript has no integers of 64 bits, so that JSON has them as text.
        return {{"type", "string"}, {"format", "int64"}};
      case pb::FieldDescriptor::CPPTYPE_INT32:
      case pb::FieldDescriptor::CPPTYPE_UINT32:
        return {{"type", "integer"}, {"format", "int32"}};
      default:
        return {{"type", "number"}};
    }
  }

  json Field(const pb::FieldDescriptor& field) {
    json schema = field.is_repeated() ? json{{"type", "array"}, {"items", Value(field)}} : Value(field);
    if (std::string text = CommentOf(field); !text.empty()) schema["description"] = std::move(text);
    return schema;
  }

  std::set<std::string> known_;
  json schemas_ = json::object();
};

json ErrorSchema() {
  const json text = {{"type", "string"}};
  return {
      {"type", "object"},
      {"description", "An error of the Connect protocol."},
      {"required", {"code"}},
      {"properties",
       {{"code", {{"type", "string"}, {"examples", {"not_found"}}}},
        {"message", text},
        {"details",
         {{"type", "array"}, {"items", {{"type", "object"}, {"properties", {{"type", text}, {"value", text}}}}}}}}}};
}

}  // namespace

std::string OpenApiDocument(std::string_view descriptors, const std::string& version) {
  pb::FileDescriptorSet set;
  if (!set.ParseFromArray(descriptors.data(), static_cast<int>(descriptors.size()))) return {};
  pb::DescriptorPool pool;
  json paths = json::object(), tags = json::array();
  Writer writer;
  for (const pb::FileDescriptorProto& proto : set.file()) {
    const pb::FileDescriptor* const file = pool.BuildFile(proto);
    if (file == nullptr) return {};
    if (file->package() != kApiPackage) continue;
    for (int i = 0; i < file->service_count(); ++i) {
      const pb::ServiceDescriptor& service = *file->service(i);
      tags.push_back({{"name", service.name()}, {"description", CommentOf(service)}});
      for (int j = 0; j < service.method_count(); ++j) {
        const pb::MethodDescriptor& method = *service.method(j);
        if (method.client_streaming()) continue;
        paths[absl::StrCat("/", service.full_name(), "/", method.name())] = {{"post", writer.Method(method)}};
      }
    }
  }
  json schemas = writer.TakeSchemas();
  schemas["Error"] = ErrorSchema();
  const json document = {
      {"openapi", "3.1.0"},
      {"info",
       {{"title", "Fulcrum"},
        {"version", version},
        {"description",
         "The API of `fulcrum serve` as JSON, by the Connect protocol. Fields that have their default "
         "value are absent from responses."},
        {"license", {{"name", "Apache-2.0"}, {"identifier", "Apache-2.0"}}}}},
      {"tags", tags},
      {"paths", paths},
      {"security", {{{"token", json::array()}}}},
      {"components",
       {{"schemas", schemas}, {"securitySchemes", {{"token", {{"type", "http"}, {"scheme", "bearer"}}}}}}}};
  return document.dump(1, ' ', false, json::error_handler_t::replace);
}

}  // namespace fulcrum::pipeline
