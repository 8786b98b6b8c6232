#include <fstream>
#include <numeric>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "pipeline/campaign/stream/campaign_stream.h"
#include "stages/core/files.h"
#include "stages/core/status_macros.h"

namespace fulcrum::pipeline {
namespace {

// The features of a tuned classifier before it has chosen how they are normalised.
constexpr char kUsualNormalization[] = "zscore,unit";

std::string StreamModelName(std::int64_t round) {
  return absl::StrFormat("rounds/%06d-stream.model", round);
}

}  // namespace

absl::StatusOr<std::string> WriteStreamModel(const storage::CampaignFolder& folder, std::int64_t round,
                                             const RoundStreamModel& model) {
  const std::string name = StreamModelName(round);
  FULCRUM_RETURN_IF_ERROR(
      ReplaceFile(folder.File(name), absl::StrCat(model.normalize, "\n", model.model->Serialize())));
  return name;
}

absl::StatusOr<RoundStreamModel> ReadStreamModel(const storage::CampaignFolder& folder, std::int64_t round) {
  const std::string path = folder.File(StreamModelName(round));
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::NotFoundError(absl::StrCat("'", path, "' is missing"));
  std::ostringstream text;
  text << file.rdbuf();
  const std::string bytes = text.str();
  const std::size_t line = bytes.find('\n');
  if (line == std::string::npos) return absl::DataLossError(absl::StrCat("'", path, "' is damaged"));
  RoundStreamModel model{.normalize = bytes.substr(0, line)};
  auto parsed = stream::StreamModel::Parse(std::string_view(bytes).substr(line + 1));
  if (!parsed.ok()) return absl::DataLossError(absl::StrCat("'", path, "': ", parsed.status().message()));
  model.model = *std::move(parsed);
  return model;
}

absl::StatusOr<RoundStreamModel> FirstStreamModel(const CampaignPlan& plan, const CampaignPool& pool) {
  RoundStreamModel first{.normalize = plan.round.tune ? kUsualNormalization : ""};
  std::shared_ptr<const kernel::Features> prepared;
  if (plan.round.tune) {
    FULCRUM_ASSIGN_OR_RETURN(PreparedFeatures features, pool.Prepare(first.normalize));
    prepared = std::move(features.pool);
  }
  RowList rows(pool.learned_rows());
  std::iota(rows.begin(), rows.end(), RowIndex{0});
  const std::vector<ClassIndex> labels(pool.rows(), kUnlabeled);
  stream::StreamModelOptions options;
  options.seed = plan.round.seed;
  FULCRUM_ASSIGN_OR_RETURN(first.model,
                           stream::StreamModel::Make({.features = prepared == nullptr ? pool.features() : *prepared,
                                                      .labels = labels,
                                                      .kernel = plan.round.leverage_kernel,
                                                      .rows = rows},
                                                     options));
  return first;
}

}  // namespace fulcrum::pipeline
