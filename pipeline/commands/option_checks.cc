#include "pipeline/commands/option_checks.h"

#include <charconv>
#include <cstdint>
#include <string>

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

}  // namespace fulcrum::pipeline
