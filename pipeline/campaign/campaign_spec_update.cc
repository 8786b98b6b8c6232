// Which fields of a specification can change while its campaign runs, and how they are replaced.

#include <google/protobuf/field_mask.pb.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "fulcrum/v1/campaign_spec.pb.h"
#include "pipeline/campaign/campaign_plan.h"

namespace fulcrum::pipeline {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// What can change while a campaign runs. The rest decides what its pool and its models are.
constexpr const char* kChangeable[] = {"question",
                                       "selection.batch",
                                       "selection.cost_budget",
                                       "selection.cluster",
                                       "selection.memory_mib",
                                       "labeling",
                                       "advance",
                                       "stop",
                                       "classifier.class_weights",
                                       "classifier.external",
                                       "retention"};

bool IsChangeable(absl::string_view path) {
  return std::any_of(std::begin(kChangeable), std::end(kChangeable), [&](absl::string_view allowed) {
    return path == allowed || absl::StartsWith(path, absl::StrCat(allowed, "."));
  });
}

/// Replaces one field, given by its path, by what it is in `from`. False if there is no such field.
bool ReplaceField(const Message& from, absl::string_view path, Message& to) {
  const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(path, absl::MaxSplits('.', 1));
  const FieldDescriptor* const field = to.GetDescriptor()->FindFieldByName(std::string(parts.first));
  if (field == nullptr) return false;
  if (!parts.second.empty()) {
    if (field->message_type() == nullptr || field->is_repeated()) return false;
    return ReplaceField(from.GetReflection()->GetMessage(from, field), parts.second,
                        *to.GetReflection()->MutableMessage(&to, field));
  }
  const std::unique_ptr<Message> only(from.New());
  only->CopyFrom(from);
  std::vector<const FieldDescriptor*> set;
  only->GetReflection()->ListFields(*only, &set);
  for (const FieldDescriptor* const other : set) {
    if (other != field) only->GetReflection()->ClearField(only.get(), other);
  }
  to.GetReflection()->ClearField(&to, field);
  to.MergeFrom(*only);
  return true;
}

}  // namespace

absl::StatusOr<v1::CampaignSpec> UpdatedSpec(const v1::CampaignSpec& spec, const v1::CampaignSpec& changed,
                                             const google::protobuf::FieldMask& mask) {
  if (mask.paths().empty()) return absl::InvalidArgumentError("'update_mask' is empty; name the fields that change");
  v1::CampaignSpec updated = spec;
  for (const std::string& path : mask.paths()) {
    if (IsChangeable(path) && ReplaceField(changed, path, updated)) continue;
    return absl::InvalidArgumentError(absl::StrCat("'", path.substr(0, 200),
                                                   "' cannot be changed; what can be changed is ",
                                                   absl::StrJoin(kChangeable, ", "), ", and fields of these"));
  }
  if (spec.classifier().has_external() != updated.classifier().has_external()) {
    return absl::InvalidArgumentError(
        "whether a campaign uses classifier.external cannot be changed; create another campaign");
  }
  const auto& before = spec.stop().accuracy().sources();
  const auto& after = updated.stop().accuracy().sources();
  if (!std::equal(before.begin(), before.end(), after.begin(), after.end())) {
    return absl::InvalidArgumentError(
        "the validation set cannot be changed, it was imported when the campaign was created; "
        "name stop.accuracy.target instead of stop or stop.accuracy");
  }
  return updated;
}

}  // namespace fulcrum::pipeline
