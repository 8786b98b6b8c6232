#include "storage/landmark_file.h"

#include <fstream>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "stages/core/atomic_file.h"
#include "stages/core/status_macros.h"

namespace fulcrum::storage {
namespace {

constexpr char kHeader[] = "class,row";

std::string NameOf(std::int64_t round) {
  return absl::StrFormat("rounds/%06d-landmarks.csv", round);
}

}  // namespace

absl::StatusOr<std::string> WriteLandmarkFile(const CampaignFolder& folder, std::int64_t round,
                                              const LandmarksByClass& landmarks) {
  std::string text = absl::StrCat(kHeader, "\n");
  for (const auto& [class_index, rows] : landmarks) {
    for (const RowIndex row : rows) absl::StrAppend(&text, class_index, ",", row, "\n");
  }
  FULCRUM_RETURN_IF_ERROR(ReplaceFile(folder.File(NameOf(round)), text));
  return NameOf(round);
}

absl::StatusOr<LandmarksByClass> ReadLandmarkFile(const CampaignFolder& folder, std::int64_t round,
                                                  std::size_t pool_rows) {
  const std::string path = folder.File(NameOf(round));
  std::ifstream file(path);
  LandmarksByClass landmarks;
  if (!file) return landmarks;
  std::string line;
  std::getline(file, line);
  bool good = line == kHeader;
  while (good && std::getline(file, line)) {
    const std::vector<std::string> cells = absl::StrSplit(line, ',');
    ClassIndex class_index = 0;
    RowIndex row = 0;
    good = cells.size() == 2 && absl::SimpleAtoi(cells[0], &class_index) && absl::SimpleAtoi(cells[1], &row) &&
           row < pool_rows;
    if (!good) break;
    RowList& rows = landmarks[class_index];
    good = rows.empty() || rows.back() < row;
    rows.push_back(row);
  }
  if (good) return landmarks;
  return absl::DataLossError(
      absl::StrCat("'", path, "' is damaged at the line '", line.substr(0, 80), "'; restore a backup"));
}

}  // namespace fulcrum::storage
