#include "pipeline/text/structured_log.h"

#include <google/protobuf/stubs/logging.h>
#include <grpc/support/log.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string_view>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "nlohmann/json.hpp"
#include "pipeline/text/text_sink.h"
#include "spdlog/sinks/base_sink.h"
#include "spdlog/spdlog.h"

namespace fulcrum::pipeline {
namespace {

using Json = nlohmann::ordered_json;

LogFormat g_format = LogFormat::kText;
std::shared_ptr<spdlog::logger>* g_logger = nullptr;

std::string NowText() {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%E3S%z", absl::Now(), absl::UTCTimeZone());
}

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

/// Standard error, without waiting for its reader. A pipe that is full would otherwise stop every thread that logs, the
/// rounds of campaigns among them, as long as it is not read.
class StandardErrorSink final : public spdlog::sinks::base_sink<std::mutex> {
 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    if (dropped_ > 0) {
      const std::string note =
          FormatLogLine(g_format, NowText(), LogLevel::kWarning,
                        "lines of the log were dropped, because standard error was not read", {{"lines", dropped_}});
      // A line that was cut ends here.
      if (!Write(absl::StrCat(cut_ ? "\n" : "", note, "\n"))) return NoteDropped();
      dropped_ = 0;
      cut_ = false;
    }
    if (!Write({line.data(), line.size()})) NoteDropped();
  }
  void flush_() override {}

 private:
  /// False if it could not be written, or only its beginning.
  bool Write(std::string_view text) {
    bool begun = false;
    while (!text.empty()) {
      pollfd standard_error{.fd = STDERR_FILENO, .events = POLLOUT, .revents = 0};
      // A reader that is slow has a moment; one that is gone has had it.
      const int ready = poll(&standard_error, 1, dropped_ > 0 ? 0 : kPatienceMs);
      if (ready < 0 && errno == EINTR) continue;
      // What poll promises is room for PIPE_BUF bytes.
      const ssize_t written =
          ready == 1 ? write(STDERR_FILENO, text.data(), std::min<std::size_t>(text.size(), PIPE_BUF)) : 0;
      if (written < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      if (written <= 0) {
        cut_ = cut_ || begun;
        return false;
      }
      begun = true;
      text.remove_prefix(static_cast<std::size_t>(written));
    }
    return true;
  }
  void NoteDropped() { ++dropped_; }

  static constexpr int kPatienceMs = 50;
  std::int64_t dropped_ = 0;  // lines since the last one that was written
  bool cut_ = false;          // the last line that was written has no end
};

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
  g_logger = new std::shared_ptr(std::make_shared<spdlog::logger>("fulcrum", std::make_shared<StandardErrorSink>()));
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
  (*g_logger)->info("{}", FormatLogLine(g_format, NowText(), level, message, fields));
}

}  // namespace fulcrum::pipeline
