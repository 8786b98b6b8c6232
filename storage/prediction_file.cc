#include "storage/prediction_file.h"

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <system_error>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "stages/core/status_macros.h"

namespace fulcrum::storage {
namespace {

constexpr std::size_t kTrailerBytes = 64;
constexpr char kTrailerText[] = "fulcrum predictions 1 ";

std::string PredictionTrailer(std::int64_t rows, std::size_t classes) {
  std::string trailer = absl::StrCat(kTrailerText, rows, " ", classes);
  trailer.resize(kTrailerBytes - 1, ' ');
  trailer.push_back('\n');
  return trailer;
}

std::string_view BytesOf(std::span<const float> numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size_bytes()};
}

}  // namespace

absl::StatusOr<PredictionFileWriter> PredictionFileWriter::Create(const CampaignFolder& folder, std::int64_t round,
                                                                  std::int64_t lease, std::size_t classes) {
  PredictionFileWriter writer(classes);
  // A second upload under the same lease must not touch the file of the first.
  writer.name_ = absl::StrFormat("models/%06d-%012d-%08x.predictions", round, lease, std::random_device{}());
  FULCRUM_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(folder.File(writer.name_)));
  writer.file_.emplace(std::move(file));
  return writer;
}

absl::Status PredictionFileWriter::Add(std::span<const float> probabilities) {
  numbers_ += probabilities.size();
  checksum_.Add(BytesOf(probabilities));
  return file_ ? file_->Write(BytesOf(probabilities)) : absl::OkStatus();
}

absl::Status PredictionFileWriter::Finish() {
  const std::string trailer = PredictionTrailer(rows(), classes_);
  checksum_.Add(trailer);
  if (!file_) return absl::OkStatus();
  FULCRUM_RETURN_IF_ERROR(file_->Write(trailer));
  return file_->Commit();
}

void PredictionFileWriter::Discard() {
  if (!file_) return;
  std::error_code ignored;
  std::filesystem::remove(file_->path(), ignored);
}

absl::StatusOr<StoredPredictions> ReadPredictionFile(const CampaignFolder& folder, const std::string& name,
                                                     const std::string& checksum) {
  const std::string path = folder.File(name);
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return absl::NotFoundError(absl::StrCat("the predictions '", path, "' are missing; restore a backup"));
  const auto bytes = static_cast<std::size_t>(file.tellg());
  const auto damaged = [&](const char* how) {
    return absl::DataLossError(absl::StrCat("the predictions '", path, "' are damaged: ", how, "; restore a backup"));
  };
  if (bytes < kTrailerBytes || (bytes - kTrailerBytes) % sizeof(float) != 0) return damaged("their size is wrong");
  StoredPredictions stored;
  stored.probabilities.resize((bytes - kTrailerBytes) / sizeof(float));
  std::string trailer(kTrailerBytes, '\0');
  file.seekg(0);
  file.read(reinterpret_cast<char*>(stored.probabilities.data()), static_cast<std::streamsize>(bytes - kTrailerBytes));
  file.read(trailer.data(), static_cast<std::streamsize>(kTrailerBytes));
  if (!file) return damaged("they cannot be read");
  Checksum found;
  found.Add(BytesOf(stored.probabilities));
  found.Add(trailer);
  if (found.ToText() != checksum) return damaged("the checksum differs");
  absl::string_view text = trailer;
  if (!absl::ConsumePrefix(&text, kTrailerText)) return damaged("the end is missing");
  const std::vector<std::string> parts = absl::StrSplit(text, absl::ByAnyChar(" \n"), absl::SkipEmpty());
  const bool fits = parts.size() == 2 && absl::SimpleAtoi(parts[0], &stored.rows) &&
                    absl::SimpleAtoi(parts[1], &stored.classes) &&
                    stored.rows * stored.classes == stored.probabilities.size();
  if (!fits) return damaged("the end does not fit the size");
  return stored;
}

}  // namespace fulcrum::storage
