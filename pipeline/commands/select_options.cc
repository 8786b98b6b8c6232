#include "pipeline/commands/select_options.h"

#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "pipeline/commands/option_checks.h"
#include "pipeline/memory_budget.h"
#include "stages/core/status_macros.h"
#include "stages/ingest/normalize.h"
#include "stages/ingest/number_text.h"
#include "stages/leverage/engine_registry.h"
#include "stages/select/strategy_registry.h"
#include "tbb/info.h"

namespace fulcrum::pipeline {
namespace {

constexpr int kMostThreads = 4096;

absl::Status OutOfRange(absl::string_view option, double value, absl::string_view range) {
  return absl::InvalidArgumentError(absl::StrFormat("%s is %g; it must be %s", option, value, range));
}

absl::Status NamedAfter(absl::string_view option, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(option, ": ", status.message()));
}

// The kernel's own check speaks of parameters; people know the options.
absl::Status CheckKernelNumbers(absl::string_view prefix, double sigma, double offset, int degree) {
  if (!(sigma > 0 && std::isfinite(sigma))) return OutOfRange(absl::StrCat(prefix, "sigma"), sigma, "above 0");
  if (!(offset >= 0 && std::isfinite(offset))) return OutOfRange(absl::StrCat(prefix, "poly-c"), offset, "at least 0");
  if (degree < 1) return OutOfRange(absl::StrCat(prefix, "degree"), degree, "at least 1");
  return absl::OkStatus();
}

absl::Status CheckNumbers(const SelectOptions& options) {
  if (options.batch < 1) return OutOfRange("--batch", static_cast<double>(options.batch), "at least 1");
  if (!(options.tau > 0 && options.tau <= 1)) return OutOfRange("--tau", options.tau, "above 0 and at most 1");
  if (!(options.alpha >= 0 && options.alpha <= 1)) return OutOfRange("--alpha", options.alpha, "between 0 and 1");
  if (!(options.svm_c > 0 && std::isfinite(options.svm_c))) return OutOfRange("--svm-c", options.svm_c, "above 0");
  if (options.threads < 1 || options.threads > kMostThreads) {
    return OutOfRange("--threads", options.threads, absl::StrCat("between 1 and ", kMostThreads));
  }
  FULCRUM_RETURN_IF_ERROR(CheckKernelNumbers("--", options.sigma, options.poly_c, options.degree));
  return CheckKernelNumbers("--svm-", options.svm_sigma, options.svm_poly_c, options.svm_degree);
}

absl::Status CheckFilesAreNamed(const SelectOptions& options) {
  if (options.pool.empty()) return absl::InvalidArgumentError("--pool is missing; name the file with the examples");
  if (options.labels.empty()) {
    return absl::InvalidArgumentError("--labels is missing; name the file with the labels so far (id,label)");
  }
  if (options.quiet && options.verbose) return absl::InvalidArgumentError("--quiet and --verbose exclude each other");
  return absl::OkStatus();
}

template <typename T>
absl::StatusOr<T> FromOption(absl::string_view option, absl::StatusOr<T> value) {
  if (!value.ok()) return NamedAfter(option, value.status());
  return value;
}

// A class without labels keeps its weight: there is nothing to weigh.
std::vector<double> BalancedWeights(std::size_t classes, std::span<const ClassIndex> labels) {
  std::vector<double> counts(classes, 0.0);
  double labeled = 0;
  for (ClassIndex label : labels) {
    if (label == kUnlabeled) continue;
    ++counts[static_cast<std::size_t>(label)];
    ++labeled;
  }
  std::vector<double> weights(classes, 1.0);
  for (std::size_t i = 0; i < classes; ++i) {
    if (counts[i] > 0) weights[i] = labeled / (static_cast<double>(classes) * counts[i]);
  }
  return weights;
}

}  // namespace

std::string DefaultStrategy(const SelectOptions& options) {
  return options.predictions.empty() ? select::kDefaultStrategy : "dbalevs";
}

absl::Status ValidateSelectOptions(const SelectOptions& options) {
  FULCRUM_RETURN_IF_ERROR(CheckFilesAreNamed(options));
  FULCRUM_RETURN_IF_ERROR(CheckNumbers(options));
  FULCRUM_RETURN_IF_ERROR(FromOption("--normalize", ingest::ParseNormalization(options.normalize)).status());
  FULCRUM_RETURN_IF_ERROR(FromOption("--strategy", select::MakeStrategy(options.strategy)).status());
  FULCRUM_RETURN_IF_ERROR(FromOption("--engine", leverage::FindEngine(options.engine)).status());
  FULCRUM_RETURN_IF_ERROR(MemoryOf(options).status());
  FULCRUM_ASSIGN_OR_RETURN(const RoundSpec spec, MakeRoundSpec(options));
  return ValidateRoundSpec(spec);
}

absl::StatusOr<std::size_t> MemoryOf(const SelectOptions& options) {
  if (options.memory.empty()) return UsableMemoryBytes();
  FULCRUM_ASSIGN_OR_RETURN(const std::int64_t bytes, FromOption("--memory", ParseByteSize(options.memory)));
  return static_cast<std::size_t>(bytes);
}

absl::StatusOr<RoundSpec> MakeRoundSpec(const SelectOptions& options) {
  RoundSpec spec;
  spec.strategy = options.strategy;
  spec.batch = options.batch;
  spec.tau = options.tau;
  spec.alpha = options.alpha;
  spec.engine = options.engine;
  spec.landmarks = options.landmarks;
  spec.refine_landmarks = !options.no_refine;
  spec.seed = options.seed;
  FULCRUM_ASSIGN_OR_RETURN(spec.leverage_scale,
                           FromOption("--leverage-scale", select::ParseLeverageScale(options.leverage_scale)));
  FULCRUM_ASSIGN_OR_RETURN(spec.leverage_kernel.type, FromOption("--kernel", kernel::ParseKernelType(options.kernel)));
  spec.leverage_kernel.sigma = options.sigma;
  spec.leverage_kernel.offset = options.poly_c;
  spec.leverage_kernel.degree = options.degree;
  spec.leverage_kernel.normalize = options.normalize_kernel;
  FULCRUM_ASSIGN_OR_RETURN(spec.svm.kernel.type,
                           FromOption("--svm-kernel", kernel::ParseKernelType(options.svm_kernel)));
  spec.svm.kernel.sigma = options.svm_sigma;
  spec.svm.kernel.offset = options.svm_poly_c;
  spec.svm.kernel.degree = options.svm_degree;
  spec.svm.c = options.svm_c;
  spec.svm.seed = options.seed;
  return spec;
}

absl::StatusOr<std::vector<double>> ParseClassWeights(const std::string& text, const ingest::ClassNames& classes,
                                                      std::span<const ClassIndex> labels) {
  if (text.empty()) return std::vector<double>();
  if (text == "balanced") return BalancedWeights(classes.size(), labels);
  std::vector<double> weights(classes.size(), 1.0);
  for (absl::string_view part : absl::StrSplit(text, ',')) {
    const std::pair<std::string, std::string> name_and_factor = absl::StrSplit(part, absl::MaxSplits('=', 1));
    const auto& [name, factor_text] = name_and_factor;
    const ClassIndex index = classes.Find(name);
    if (index == kUnlabeled) {
      return absl::InvalidArgumentError(absl::StrCat("--class-weights: there is no class '", name,
                                                     "'; the classes are ", absl::StrJoin(classes.names(), ", ")));
    }
    const double factor = ingest::ParseNumber(factor_text).value_or(0);
    if (!(factor > 0 && std::isfinite(factor))) {
      return absl::InvalidArgumentError(
          absl::StrCat("--class-weights: '", part, "' must be a class, '=' and a number above 0"));
    }
    weights[static_cast<std::size_t>(index)] = factor;
  }
  return weights;
}

std::string ListStrategies() {
  std::string text;
  for (const select::StrategyEntry& entry : select::Strategies()) {
    absl::StrAppendFormat(&text, "%-15s %s\n%15s use it: %s\n", entry.name, entry.summary, "", entry.when_to_use);
  }
  return text;
}

}  // namespace fulcrum::pipeline
