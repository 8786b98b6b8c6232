#include "pipeline/client/class_keys.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace fulcrum::pipeline {
namespace {

constexpr char kKeys[] = "1234567890abcdefghijklmnoprtvwxyz";
constexpr char kCommands[] = "usq";

bool IsOwnKey(const std::string& name) {
  return name.size() == 1 && absl::ascii_isalnum(static_cast<unsigned char>(name[0])) &&
         std::string(kCommands).find(name[0]) == std::string::npos;
}

}  // namespace

absl::StatusOr<std::string> ClassKeys(const std::vector<std::string>& classes) {
  std::string taken;
  for (const std::string& name : classes) {
    if (IsOwnKey(name)) taken.push_back(name[0]);
  }
  std::string free;
  for (const char key : std::string(kKeys)) {
    if (taken.find(key) == std::string::npos) free.push_back(key);
  }
  std::string keys;
  std::size_t next = 0;
  for (const std::string& name : classes) {
    if (!IsOwnKey(name) && next == free.size()) {
      return absl::FailedPreconditionError(
          absl::StrCat("there are ", classes.size(), " classes, more than keys to press; use another labeling tool"));
    }
    keys.push_back(IsOwnKey(name) ? name[0] : free[next++]);
  }
  return keys;
}

}  // namespace fulcrum::pipeline
