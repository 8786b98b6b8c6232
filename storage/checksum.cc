#include "storage/checksum.h"

#include <fstream>
#include <vector>

#include "absl/strings/str_cat.h"

namespace fulcrum::storage {

absl::StatusOr<std::string> ChecksumOfFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::NotFoundError(absl::StrCat("'", path, "' is missing or cannot be read"));
  Checksum checksum;
  std::vector<char> buffer(1 << 20);
  while (file.read(buffer.data(), static_cast<std::streamsize>(buffer.size())) || file.gcount() > 0) {
    checksum.Add({buffer.data(), static_cast<std::size_t>(file.gcount())});
  }
  if (file.bad()) return absl::DataLossError(absl::StrCat("'", path, "' cannot be read to its end"));
  return checksum.ToText();
}

}  // namespace fulcrum::storage
