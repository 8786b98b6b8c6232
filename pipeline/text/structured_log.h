// The daemon's log: one line per event on standard error, a message and fields, as text or as JSON.
//
//   time=2026-01-02T03:04:05.678+0000 level=info message="campaign done" campaign=rings rounds=20
//   {"time":"2026-01-02T03:04:05.678+0000","level":"info","message":"campaign done","campaign":"rings","rounds":20}
//
// Control characters in messages and fields are escaped. Messages of libprotobuf and gRPC are written in the same
// format. The program never waits for the reader of standard error: lines that a full pipe does not take are dropped,
// and counted in the next line that it takes. Thread-safe after StartLog; before it Log writes nothing.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <variant>

namespace fulcrum::pipeline {

enum class LogFormat { kText, kJson };
enum class LogLevel { kInfo, kWarning, kError };

struct LogField {
  std::string name;
  std::variant<std::string, std::int64_t, double, bool> value;
};

/// Call it once, before other threads start.
void StartLog(LogFormat format);

/// For commands without a log: lines of libprotobuf and gRPC are left out, because the error that a command reports
/// says what they are about. With FULCRUM_DEBUG in the environment they are printed, one escaped line each.
void LeaveOutLibraryLines();

void Log(LogLevel level, const std::string& message, std::initializer_list<LogField> fields = {});

/// One line without its end, for tests and for Log. `time` is the formatted time.
std::string FormatLogLine(LogFormat format, const std::string& time, LogLevel level, const std::string& message,
                          std::initializer_list<LogField> fields);

}  // namespace fulcrum::pipeline
