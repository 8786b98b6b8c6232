#include "pipeline/campaign/stream/offer_request.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pipeline/campaign/model/feature_rows.h"
#include "pipeline/round/round.h"
#include "stages/core/files.h"
#include "stages/core/matrix.h"
#include "stages/core/status_macros.h"
#include "storage/rules/label_rules.h"

namespace fulcrum::pipeline {
namespace {

constexpr std::size_t kMostOfferedNumbers = 1 << 22;  // features of a request

std::string ContentOf(const OfferRequest& request) {
  Checksum sum;
  const auto add = [&](const std::string& bytes) {
    sum.Add(absl::StrCat(bytes.size(), ":"));
    sum.Add(bytes);
  };
  for (const v1::OfferedItem& item : request.items) add(item.SerializeAsString());
  for (const std::string& name : request.feature_names) add(name);
  return sum.ToText();
}

absl::Status CheckOffer(const CampaignPool& pool, const OfferRequest& request) {
  if (pool.ids().are_row_numbers()) {
    return absl::FailedPreconditionError(
        "the examples of this campaign are known by their row numbers; rows of a stream need a pool with ids");
  }
  if (pool.sparse() || pool.feature_names().empty()) {
    return absl::FailedPreconditionError("the features of this pool are sparse; rows of a stream need dense ones");
  }
  const auto rows = static_cast<std::size_t>(request.items.size());
  const std::size_t most = std::min(kMostOfferedRows, kMostOfferedNumbers / pool.features().dims());
  if (rows < 1 || rows > most) {
    return absl::InvalidArgumentError(
        absl::StrCat("the request has ", rows, " rows; it must be 1 to ", most, " of them at a time"));
  }
  for (int i = 0; i < request.items.size(); ++i) {
    const absl::Status named = storage::CheckText("item_id", request.items[i].item_id());
    if (!named.ok()) return absl::Status(named.code(), absl::StrCat("items[", i, "]: ", named.message()));
  }
  return storage::CheckText("name of who offers", request.by);
}

/// Values that no round could compute with must not get into the pool.
absl::Status CheckOfferedKernels(const CampaignPlan& plan, const kernel::Features& features) {
  RowList all(features.rows());
  std::iota(all.begin(), all.end(), RowIndex{0});
  const absl::Status kernels = CheckKernels(plan.round, features, all);
  for (const RowIndex row : all) {
    if (kernels.ok() || CheckKernels(plan.round, features, {&row, 1}).ok()) continue;
    return absl::Status(kernels.code(), absl::StrCat("items[", row, "]: ", kernels.message()));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<OfferedRows> ReadOfferRequest(const CampaignPlan& plan, const CampaignPool& pool,
                                             const OfferRequest& request) {
  FULCRUM_RETURN_IF_ERROR(CheckOffer(pool, request));
  OfferedRows offered{.content = ContentOf(request)};
  FULCRUM_ASSIGN_OR_RETURN(const FeatureRows reader, FeatureRows::Make(pool, request.feature_names));
  Matrix<double> values(static_cast<std::size_t>(request.items.size()), pool.features().dims());
  for (std::size_t i = 0; i < values.rows(); ++i) {
    const v1::OfferedItem& item = request.items[static_cast<int>(i)];
    FULCRUM_RETURN_IF_ERROR(reader.Read(item.features(), absl::StrCat("items[", i, "]"), values.row(i)));
    OfferedRow& row = offered.rows.emplace_back();
    row = {.id = item.item_id(), .payload = item.payload(), .cost = item.cost()};
    row.features.assign(values.row(i).begin(), values.row(i).end());
  }
  FULCRUM_ASSIGN_OR_RETURN(offered.features, pool.PrepareRows(ingest::PoolFeatures(std::move(values))));
  FULCRUM_RETURN_IF_ERROR(CheckOfferedKernels(plan, *offered.features));
  return offered;
}

}  // namespace fulcrum::pipeline
