#include "pipeline/commands/options.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace fulcrum::pipeline {

CLI::Validator WholeNumber() {
  const auto check = [](const std::string& text) -> std::string {
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc() && end == text.data() + text.size()) return "";
    return absl::StrCat("'", text, "' is not a whole number from 0 to 18446744073709551615");
  };
  // Without a name the help text would show it a second time.
  return CLI::Validator(check, "");
}

absl::StatusOr<std::int64_t> ParseByteSize(absl::string_view text) {
  constexpr absl::string_view kUnits = "KMGT";
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  absl::string_view unit = text.substr(digits);
  int shift = 0;
  if (!unit.empty() &&
      kUnits.find(absl::ascii_toupper(static_cast<unsigned char>(unit[0]))) != absl::string_view::npos) {
    shift = 10 * static_cast<int>(kUnits.find(absl::ascii_toupper(static_cast<unsigned char>(unit[0]))) + 1);
    unit.remove_prefix(1);
  }
  std::int64_t count = 0;
  const bool understood = absl::SimpleAtoi(text.substr(0, digits), &count) &&
                          (unit.empty() || absl::EqualsIgnoreCase(unit, "iB") || absl::EqualsIgnoreCase(unit, "B"));
  if (!understood || count <= 0 || count > (std::int64_t{1} << 62 >> shift)) {
    return absl::InvalidArgumentError(absl::StrCat("'", text, "' is not a size; write it like 512MiB or 2GiB"));
  }
  return count << shift;
}

namespace {

// The program with its libraries, and what the allocator does not give back.
constexpr std::int64_t kProgramBytes = std::int64_t{128} << 20;

}  // namespace

void AddMemoryOption(CLI::App& app, std::string& memory, const std::string& group) {
  CLI::Option* const option =
      app.add_option("--memory", memory, "Memory that the command may use")->capture_default_str()->type_name("SIZE");
  if (!group.empty()) option->group(group);
}

absl::StatusOr<ingest::InputLimits> LimitsOf(const std::string& memory) {
  const auto bytes = ParseByteSize(memory);
  if (!bytes.ok()) return absl::InvalidArgumentError(absl::StrCat("--memory: ", bytes.status().message()));
  ingest::InputLimits limits;
  limits.max_memory_bytes = *bytes - std::min(kProgramBytes, *bytes / 2);
  return limits;
}

absl::Status WithMemoryAdvice(const absl::Status& status, const std::string& memory) {
  // A full disk has the same code, and more memory does not help.
  const bool disk = absl::StrContains(status.message(), std::strerror(ENOSPC));
  if (!absl::IsResourceExhausted(status) || disk) return status;
  return absl::ResourceExhaustedError(
      absl::StrCat(status.message(), "\n  what to do: --memory is ", memory, "; allow more, or split the file"));
}

void AddColumnFlags(CLI::App& app, ingest::ColumnOptions& columns) {
  const char* group = "Columns";
  app.add_option("--id", columns.id, "Column with the ids; default: 'id' if it exists, otherwise row numbers")
      ->type_name("COLUMN")
      ->group(group);
  app.add_option("--label", columns.label, "Column with the labels; default: 'label' if it exists")
      ->type_name("COLUMN")
      ->group(group);
  app.add_option("--cost", columns.cost, "Column with the cost of a label")->type_name("COLUMN")->group(group);
  app.add_option("--payload", columns.payload,
                 "Column with what a person needs to see to label the row; kept unchanged")
      ->type_name("COLUMN")
      ->group(group);
  app.add_option("--features", columns.features, "The features, separated by commas; default: all other columns")
      ->delimiter(',')
      ->type_name("COLUMNS")
      ->group(group);
}

void AddConnectionOptions(CLI::App& app, ConnectionOptions& options) {
  constexpr char kGroup[] = "Server";
  app.add_option("--server", options.server, "Address of the server")
      ->type_name("HOST:PORT")
      ->envname("FULCRUM_SERVER")
      ->capture_default_str()
      ->group(kGroup);
  app.add_option("--token-file", options.token_file, "File with the access token; default: the variable FULCRUM_TOKEN")
      ->type_name("FILE")
      ->envname("FULCRUM_TOKEN_FILE")
      ->group(kGroup);
  app.add_option("--tls-ca", options.tls_ca, "CA certificates of the server, in PEM format; enables TLS")
      ->type_name("FILE")
      ->envname("FULCRUM_TLS_CA")
      ->group(kGroup);
  app.add_option("--tls-cert", options.tls_cert, "Client certificate, if the server requires one (mutual TLS)")
      ->type_name("FILE")
      ->envname("FULCRUM_TLS_CERT")
      ->group(kGroup);
  app.add_option("--tls-key", options.tls_key, "Private key of --tls-cert")
      ->type_name("FILE")
      ->envname("FULCRUM_TLS_KEY")
      ->group(kGroup);
}

}  // namespace fulcrum::pipeline
