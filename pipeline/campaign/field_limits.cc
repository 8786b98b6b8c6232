#include "pipeline/campaign/field_limits.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/duration.pb.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <set>
#include <shared_mutex>
#include <unordered_map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"

namespace fulcrum::pipeline {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::Duration;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr double kMinute = 60;
constexpr double kDay = 24 * 60 * kMinute;
constexpr double kYear = 366 * kDay;
// Identifiers are looked up, never used as a size.
constexpr double kLargestId = 9.2e18;

// The ranges are far wider than any sensible value. They exclude what overflows a timestamp, a product of sizes or the
// square of a number, and what would make one request occupy the memory of the daemon.
constexpr FieldLimit kLimits[] = {
    {"CampaignSpec.seed", 0, 18446744073709551615.0},
    {"KernelSpec.sigma", 1e-100, 1e100},
    {"KernelSpec.offset", 0, 1e100},
    {"KernelSpec.degree", 1, 1000},
    {"ClassifierSpec.c", 1e-30, 1e30},
    {"ClassifierSpec.full_every", 0, 1e9},
    {"ClassWeight.weight", 1e-6, 1e6},
    {"ExternalModelSpec.timeout", 1, kYear},
    {"ExternalModelSpec.lease_time", 0.1, kDay},
    {"ClusterSpec.timeout", 1, kYear},
    {"SelectionSpec.batch", 1, 1e6},
    {"SelectionSpec.tau", 0, 1, /*above_low=*/true},
    {"SelectionSpec.alpha", 0, 1},
    {"SelectionSpec.memory_mib", 32, 1 << 30},
    {"SelectionSpec.cost_budget", 0, 1e15},
    {"StreamSpec.share", 0, 1, /*above_low=*/true},
    {"StreamSpec.labels", 0, 1e12, /*above_low=*/true},
    {"StreamSpec.period", 0.001, kYear},
    {"StreamSpec.keep_share", 0, 1, /*above_low=*/true},
    {"StreamSpec.novelty", 0, 1e6},
    {"StreamSpec.drift_window", 2, 1e6},
    {"StreamSpec.drift_rate", 0.0001, 0.5},
    {"AnnotatorTerms.cost", 0, 1e15},
    {"AnnotatorTerms.budget", 0, 1e15},
    {"AnnotatorTerms.hourly_cost", 0, 1e15},
    {"LabelingSpec.overlap", 0, 1000},
    {"LabelingSpec.margin", 1, 1000},
    {"LabelingSpec.most_votes", 1, 10'000},
    {"LabelingSpec.lease_time", 0.001, kYear},
    {"LabelingSpec.most_attempts", 1, 1e6},
    {"LabelingSpec.dispute_time", 0.001, 10 * kYear},
    {"RetentionSpec.scores", 0, 1e6},
    {"RetentionSpec.models", 0, 1e6},
    {"LabelingSpec.max_votes", 1, 10'000},
    {"LabelingSpec.confidence", 0, 1, /*above_low=*/true, /*below_high=*/true},
    {"LabelingSpec.first_confidence", 0, 1, /*above_low=*/true, /*below_high=*/true},
    {"LabelingSpec.classifier_weight", 0, 1},
    {"GoldSpec.rate", 0, 1, /*above_low=*/false, /*below_high=*/true},
    {"QualitySpec.pause_below", 0, 1},
    {"QualitySpec.min_votes", 1, 1e9},
    {"AdvanceSpec.soft_time", 0, 10 * kYear},
    {"AdvanceSpec.soft_share", 0, 1, /*above_low=*/true},
    {"AdvanceSpec.hard_time", 0, 10 * kYear},
    {"AdvanceSpec.hard_minimum", 1, 1e9},
    {"StopSpec.labels", 0, 1e12},
    {"StopSpec.rounds", 0, 1e9},
    {"StopSpec.cost", 0, 1e15},
    {"AccuracyRule.target", 0, 1},
    {"StableRule.rounds", 0, 1e9},
    {"StableRule.share", 0, 1, /*above_low=*/false, /*below_high=*/true},
    {"PlateauRule.rounds", 0, 1e9},
    {"PlateauRule.improvement", 0, 1, /*above_low=*/false, /*below_high=*/true},

    // Larger pages are served as the largest one.
    {"ListCampaignsRequest.page_size", 0, 2147483647},
    {"ListItemsRequest.page_size", 0, 2147483647},
    {"ListLabelErrorsRequest.page_size", 0, 2147483647},
    {"ListLabelingCampaignsRequest.page_size", 0, 2147483647},
    {"ListOperationsRequest.page_size", 0, 2147483647},
    {"ListUploadsRequest.page_size", 0, 2147483647},
    {"ListPoolFilesRequest.page_size", 0, 2147483647},
    {"GetPoolMapRequest.max_points", 0, 2147483647},
    {"CreateUploadRequest.size_bytes", 1, 1e15},
    {"WriteUploadRequest.offset_bytes", 0, 1e15},
    {"WatchCampaignRequest.after_sequence", 0, kLargestId},
    {"GetModelRequest.round", 0, kLargestId},
    {"PredictRequest.round", 0, kLargestId},
    {"OfferedItem.cost", 0, 1e15},
    // Features are stored with 32 bits.
    {"FeatureRow.values", -3.4028234663852886e38, 3.4028234663852886e38},
    {"FeatureRow.indices", 0, 2147483647},

    {"AcquireTasksRequest.max_tasks", 1, 1000},
    // A longer wait than a minute ends after a minute.
    {"AcquireTasksRequest.wait", 0, kDay},
    {"WorkRequest.Hello.credit", 1, 1000},
    {"AcquireModelTaskRequest.wait", 0, kDay},
    {"RenewModelTaskRequest.lease_id", 0, kLargestId},
    {"RenewModelTaskRequest.epoch", 0, kLargestId},
    {"ReleaseModelTaskRequest.lease_id", 0, kLargestId},
    {"ReleaseModelTaskRequest.epoch", 0, kLargestId},
    {"GetModelLabelsRequest.task_id", 0, kLargestId},
    {"FeatureBlock.rows", 0, 1e9},
    {"GetModelRowsRequest.task_id", 0, kLargestId},
    {"GetModelRowsRequest.first_row", 0, kLargestId},
    {"SubmitPredictionsRequest.Begin.lease_id", 0, kLargestId},
    {"SubmitPredictionsRequest.Begin.epoch", 0, kLargestId},
    {"LeaseRef.lease_id", 0, kLargestId},
    {"LeaseRef.epoch", 0, kLargestId},
};

/// What is checked in messages of one type.
struct MessageChecks {
  struct Number {
    const FieldDescriptor* field;
    const FieldLimit* limit;  ///< null for an enumeration
  };
  std::vector<Number> numbers = {};
  std::vector<const FieldDescriptor*> messages = {};  ///< fields that hold numbers further down
};

bool IsDuration(const FieldDescriptor& field) {
  return field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE && field.message_type() == Duration::descriptor();
}

bool IsNumber(const FieldDescriptor& field) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_STRING:
    case FieldDescriptor::CPPTYPE_BOOL:
    case FieldDescriptor::CPPTYPE_ENUM:
      return false;
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return IsDuration(field);
    default:
      return true;
  }
}

std::string NameInTable(const FieldDescriptor& field) {
  return std::string(absl::StripPrefix(field.full_name(), "fulcrum.v1."));
}

const FieldLimit* FindLimit(const FieldDescriptor& field) {
  const std::string name = NameInTable(field);
  for (const FieldLimit& limit : kLimits) {
    if (name == limit.field) return &limit;
  }
  return nullptr;
}

/// Whether messages of this type can hold a number or an enumeration value at any depth.
bool HoldsNumbers(const Descriptor& type, std::set<const Descriptor*> seen = {}) {
  if (!seen.insert(&type).second) return false;
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    if (IsNumber(field) || field.cpp_type() == FieldDescriptor::CPPTYPE_ENUM) return true;
    if (field.message_type() != nullptr && HoldsNumbers(*field.message_type(), seen)) return true;
  }
  return false;
}

MessageChecks MakeChecks(const Descriptor& type) {
  MessageChecks checks;
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    if (IsNumber(field)) {
      // A field without a line in the table is found by the test; here it goes unchecked.
      if (const FieldLimit* limit = FindLimit(field)) checks.numbers.push_back({&field, limit});
    } else if (field.cpp_type() == FieldDescriptor::CPPTYPE_ENUM) {
      checks.numbers.push_back({&field, nullptr});
    } else if (field.message_type() != nullptr && HoldsNumbers(*field.message_type())) {
      checks.messages.push_back(&field);
    }
  }
  return checks;
}

/// Made once per type: labels are checked on the path that every answer of a worker takes.
const MessageChecks& ChecksOf(const Descriptor& type) {
  static auto* const mutex = new std::shared_mutex;
  static auto* const known = new std::unordered_map<const Descriptor*, MessageChecks>;
  {
    const std::shared_lock lock(*mutex);
    if (const auto found = known->find(&type); found != known->end()) return found->second;
  }
  const std::unique_lock lock(*mutex);
  return known->try_emplace(&type, MakeChecks(type)).first->second;
}

/// Seconds of a duration; NaN if it is not a valid one.
double SecondsOf(const Duration& duration) {
  const bool valid = std::abs(duration.nanos()) < 1'000'000'000 && (duration.seconds() == 0 || duration.nanos() == 0 ||
                                                                    (duration.seconds() < 0) == (duration.nanos() < 0));
  return valid ? static_cast<double>(duration.seconds()) + 1e-9 * duration.nanos() : std::nan("");
}

/// The value of a singular field, or of one element of a repeated field.
double ValueOf(const Message& message, const FieldDescriptor& field, std::optional<int> element) {
  const Reflection& reflection = *message.GetReflection();
  const auto read = [&](auto get, auto get_repeated) {
    return static_cast<double>(element ? (reflection.*get_repeated)(message, &field, *element)
                                       : (reflection.*get)(message, &field));
  };
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return read(&Reflection::GetInt32, &Reflection::GetRepeatedInt32);
    case FieldDescriptor::CPPTYPE_INT64:
      return read(&Reflection::GetInt64, &Reflection::GetRepeatedInt64);
    case FieldDescriptor::CPPTYPE_UINT32:
      return read(&Reflection::GetUInt32, &Reflection::GetRepeatedUInt32);
    case FieldDescriptor::CPPTYPE_UINT64:
      return read(&Reflection::GetUInt64, &Reflection::GetRepeatedUInt64);
    case FieldDescriptor::CPPTYPE_FLOAT:
      return read(&Reflection::GetFloat, &Reflection::GetRepeatedFloat);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return read(&Reflection::GetDouble, &Reflection::GetRepeatedDouble);
    case FieldDescriptor::CPPTYPE_ENUM:
      return read(&Reflection::GetEnumValue, &Reflection::GetRepeatedEnumValue);
    default: {
      const Message& duration =
          element ? reflection.GetRepeatedMessage(message, &field, *element) : reflection.GetMessage(message, &field);
      return SecondsOf(static_cast<const Duration&>(duration));
    }
  }
}

bool IsInside(double value, const FieldLimit& limit) {
  return (limit.above_low ? value > limit.low : value >= limit.low) &&
         (limit.below_high ? value < limit.high : value <= limit.high);
}

std::string NumberText(double value, const FieldDescriptor& field) {
  if (!IsDuration(field)) return absl::StrFormat("%.15g", value);
  return std::isnan(value) ? "not a valid duration" : absl::StrFormat("%.15gs", value);
}

std::string DescribeProblem(double value, const FieldDescriptor& field, const FieldLimit& limit) {
  return absl::StrCat("is ", NumberText(value, field), "; it must be ", limit.above_low ? "above " : "at least ",
                      NumberText(limit.low, field), " and ", limit.below_high ? "below " : "at most ",
                      NumberText(limit.high, field));
}

std::string PathOf(const std::string& parent, const FieldDescriptor& field, std::optional<int> element) {
  std::string path = absl::StrCat(parent, parent.empty() ? "" : ".", field.name());
  if (element) absl::StrAppend(&path, "[", *element, "]");
  return path;
}

/// Calls `visit` once for a singular field that is set, or once per element. A field without presence is always set.
template <typename Visit>
void ForEachValue(const Message& message, const FieldDescriptor& field, Visit visit) {
  const Reflection& reflection = *message.GetReflection();
  if (field.is_repeated()) {
    const int size = reflection.FieldSize(message, &field);
    for (int i = 0; i < size; ++i) visit(std::optional<int>(i));
  } else if (!field.has_presence() || reflection.HasField(message, &field)) {
    visit(std::optional<int>());
  }
}

/// A path such as "labels[7].lease": made of text only when there is a problem to report.
struct Place {
  const Place* parent = nullptr;
  const FieldDescriptor* field = nullptr;
  std::optional<int> element = {};

  std::string ToText() const {
    return field == nullptr ? "" : PathOf(parent == nullptr ? "" : parent->ToText(), *field, element);
  }
};

void Check(const Message& message, const Place& place, std::vector<FieldProblem>& problems) {
  const MessageChecks& checks = ChecksOf(*message.GetDescriptor());
  for (const auto& [field, limit] : checks.numbers) {
    ForEachValue(message, *field, [&, field = field, limit = limit](std::optional<int> element) {
      const double value = ValueOf(message, *field, element);
      const auto add = [&](std::string what) {
        problems.push_back({PathOf(place.ToText(), *field, element), std::move(what)});
      };
      if (limit != nullptr) {
        if (!IsInside(value, *limit)) add(DescribeProblem(value, *field, *limit));
      } else if (field->enum_type()->FindValueByNumber(static_cast<int>(value)) == nullptr) {
        add(absl::StrFormat("is %.15g; %s has no such value", value, field->enum_type()->name()));
      }
    });
  }
  for (const FieldDescriptor* field : checks.messages) {
    const Reflection& reflection = *message.GetReflection();
    ForEachValue(message, *field, [&](std::optional<int> element) {
      const Message& below =
          element ? reflection.GetRepeatedMessage(message, field, *element) : reflection.GetMessage(message, field);
      Check(below, {.parent = &place, .field = field, .element = element}, problems);
    });
  }
}

void CollectFieldsWithoutLimit(const Descriptor& type, std::set<const Descriptor*>& seen,
                               std::vector<std::string>& missing) {
  if (!seen.insert(&type).second) return;
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    if (IsNumber(field)) {
      if (FindLimit(field) == nullptr) missing.push_back(NameInTable(field));
    } else if (field.message_type() != nullptr) {
      CollectFieldsWithoutLimit(*field.message_type(), seen, missing);
    }
  }
}

}  // namespace

std::span<const FieldLimit> FieldLimits() {
  return kLimits;
}

std::vector<FieldProblem> FindNumbersOutOfRange(const Message& message) {
  std::vector<FieldProblem> problems;
  Check(message, {}, problems);
  return problems;
}

absl::Status CheckNumbers(const Message& request) {
  const std::vector<FieldProblem> problems = FindNumbersOutOfRange(request);
  if (problems.empty()) return absl::OkStatus();
  std::string message = "the request has numbers that are out of range:";
  for (const FieldProblem& problem : problems) absl::StrAppend(&message, "\n  ", problem.field, " ", problem.what);
  return WithFieldProblems(absl::InvalidArgumentError(message), problems);
}

std::vector<std::string> FieldsWithoutLimit(const Descriptor& type) {
  std::set<const Descriptor*> seen;
  std::vector<std::string> missing;
  CollectFieldsWithoutLimit(type, seen, missing);
  return missing;
}

}  // namespace fulcrum::pipeline
