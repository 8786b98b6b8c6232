#include "pipeline/text/structured_log.h"

#include <google/protobuf/stubs/logging.h>
#include <grpc/support/log.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "nlohmann/json.hpp"
#include "pipeline/text/text_sink.h"
#include "spdlog/sinks/stdout_sinks.h"
#include "spdlog/spdlog.h"

namespace fulcrum::pipeline {
namespace {

using Json = nlohmann::ordered_json;

LogFormat g_format = LogFormat::kText;
std::shared_ptr<spdlog::logger>* g_logger = nullptr;

const char* NameOf(LogLevel level) {
  switch (level) {
    case LogLevel::kInfo:
      return "info";
    case LogLevel::kWarning:
      return "warning";
    case LogLevel::kError:
      return "error";
  }
  return "info";
}

/// Encoded as JSON; bytes that are not UTF-8 must not terminate the daemon.
std::string Dump(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json ToJson(const LogField& field) {
  if (const auto* text = std::get_if<std::string>(&field.value)) return Json(PrintableText(*text));
  return std::visit([](const auto& value) { return Json(value); }, field.value);
}

/// Text that could be mistaken for more than one word, or for the end of the line, is quoted as JSON quotes it.
std::string TextOf(const Json& value) {
  if (!value.is_string()) return Dump(value);
  const auto& text = value.get_ref<const std::string&>();
  const bool plain = !text.empty() && text.find_first_of(" =\"\\\n\r\t") == std::string::npos;
  return plain ? text : Dump(value);
}

}  // namespace

std::string FormatLogLine(LogFormat format, const std::string& time, LogLevel level, const std::string& message,
                          std::initializer_list<LogField> fields) {
  Json line = {{"time", time}, {"level", NameOf(level)}, {"message", PrintableText(message)}};
  for (const LogField& field : fields) line[field.name] = ToJson(field);
  if (format == LogFormat::kJson) return Dump(line);
  std::string text;
  for (const auto& [name, value] : line.items()) {
    absl::StrAppend(&text, text.empty() ? "" : " ", name, "=", TextOf(value));
  }
  return text;
}

namespace {

void LogLibraryLine(LogLevel level, const char* library, const char* file, int line, const std::string& message) {
  Log(level, message, {{"library", library}, {"source", absl::StrCat(file, ":", line)}});
}

void LogProtobufLine(google::protobuf::LogLevel severity, const char* file, int line, const std::string& message) {
  const LogLevel level = severity == google::protobuf::LOGLEVEL_INFO      ? LogLevel::kInfo
                         : severity == google::protobuf::LOGLEVEL_WARNING ? LogLevel::kWarning
                                                                          : LogLevel::kError;
  LogLibraryLine(level, "protobuf", file, line, message);
}

void LogGrpcLine(gpr_log_func_args* line) {
  const LogLevel level = line->severity == GPR_LOG_SEVERITY_ERROR ? LogLevel::kError : LogLevel::kInfo;
  LogLibraryLine(level, "gRPC", line->file, line->line, line->message);
}

void PrintForDebugging(const std::string& message) {
  static const bool debugging = std::getenv("FULCRUM_DEBUG") != nullptr;
  if (debugging) std::fprintf(stderr, "fulcrum: %s\n", PrintableText(message).c_str());
}

}  // namespace

void StartLog(LogFormat format) {
  g_format = format;
  // Never freed: threads may log until the process exits.
  g_logger = new std::shared_ptr(
      std::make_shared<spdlog::logger>("fulcrum", std::make_shared<spdlog::sinks::stderr_sink_mt>()));
  (*g_logger)->set_pattern("%v");
  google::protobuf::SetLogHandler(LogProtobufLine);
  gpr_set_log_function(LogGrpcLine);
}

void LeaveOutLibraryLines() {
  google::protobuf::SetLogHandler([](google::protobuf::LogLevel /*severity*/, const char* /*file*/, int /*line*/,
                                     const std::string& message) { PrintForDebugging(message); });
  gpr_set_log_function([](gpr_log_func_args* line) { PrintForDebugging(line->message); });
}

void Log(LogLevel level, const std::string& message, std::initializer_list<LogField> fields) {
  if (g_logger == nullptr) return;
  const std::string time = absl::FormatTime("%Y-%m-%dT%H:%M:%E3S%z", absl::Now(), absl::UTCTimeZone());
  (*g_logger)->info("{}", FormatLogLine(g_format, time, level, message, fields));
}

}  // namespace fulcrum::pipeline
