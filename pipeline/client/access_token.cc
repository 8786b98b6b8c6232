#include "pipeline/client/access_token.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace fulcrum::pipeline {
namespace {

constexpr std::size_t kMostBytes = 4096;

// Anything else cannot travel in a header, and would make gRPC fail without saying why.
absl::StatusOr<std::string> CheckToken(const std::string& text, const std::string& origin) {
  const std::string token(absl::StripAsciiWhitespace(text));
  if (token.empty()) return absl::InvalidArgumentError(absl::StrCat(origin, " holds no token; put one in"));
  const bool sound = token.size() <= kMostBytes && std::all_of(token.begin(), token.end(), absl::ascii_isgraph);
  if (sound) return token;
  return absl::InvalidArgumentError(
      absl::StrCat(origin, " does not hold a token: it must be one word of printable characters"));
}

}  // namespace

absl::StatusOr<std::string> LoadAccessToken(const std::string& token_file) {
  if (token_file.empty()) {
    const char* value = std::getenv("FULCRUM_TOKEN");
    if (value == nullptr || *value == '\0') return std::string();
    return CheckToken(value, "FULCRUM_TOKEN");
  }
  std::ifstream stream(token_file, std::ios::binary);
  std::string text(std::istreambuf_iterator<char>(stream), {});
  if (!stream) {
    return absl::InvalidArgumentError(
        absl::StrCat("--token-file: cannot read '", token_file, "'; name a file that holds a token and nothing else"));
  }
  return CheckToken(text, absl::StrCat("--token-file: '", token_file, "'"));
}

}  // namespace fulcrum::pipeline
