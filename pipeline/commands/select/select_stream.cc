#include "pipeline/commands/select/select_stream.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "pipeline/text/text_sink.h"
#include "stages/core/number_text.h"
#include "stages/core/status_macros.h"
#include "stages/ingest/formats/table_source.h"
#include "stages/stream/stream_selector.h"

namespace fulcrum::pipeline {
namespace {

/// Where the id and the features of a line are.
class StreamColumns {
 public:
  static absl::StatusOr<StreamColumns> FromHeader(const StreamLine& line, const std::string& id_name,
                                                  const std::vector<std::string>& features) {
    FULCRUM_ASSIGN_OR_RETURN(const std::vector<std::string> names, SplitStreamLine(line));
    StreamColumns columns;
    columns.count_ = names.size();
    const auto find = [&](const std::string& name) -> std::optional<std::size_t> {
      const auto found = std::ranges::find(names, name);
      if (found == names.end()) return std::nullopt;
      return static_cast<std::size_t>(found - names.begin());
    };
    columns.id_ = find(id_name.empty() ? "id" : id_name);
    for (const std::string& feature : features) {
      const auto place = find(feature);
      if (!place) {
        return BadStreamLine(line.number,
                             absl::StrCat("there is no column '", feature,
                                          "', which the pool has\n  what to do: begin the stream with a line of "
                                          "column names, those of the pool's features among them"));
      }
      columns.features_.push_back(*place);
    }
    return columns;
  }

  bool has_ids() const { return id_.has_value(); }

  /// Returns the id, and writes the features to `row`.
  absl::StatusOr<std::string> Parse(const StreamLine& line, std::span<double> row) const {
    FULCRUM_ASSIGN_OR_RETURN(std::vector<std::string> values, SplitStreamLine(line));
    if (values.size() != count_) {
      return BadStreamLine(line.number, absl::StrCat(values.size(), " values for ", count_, " columns"));
    }
    for (std::size_t j = 0; j < features_.size(); ++j) {
      const std::string& text = values[features_[j]];
      const std::optional<double> value = ParseNumber(text);
      if (!value || !std::isfinite(*value)) {
        return BadStreamLine(line.number, absl::StrCat("'", text, "' is not a finite number"));
      }
      row[j] = *value;
    }
    if (id_ && values[*id_].empty()) return BadStreamLine(line.number, "the id is empty");
    return id_ ? std::move(values[*id_]) : std::string();
  }

 private:
  std::size_t count_ = 0;
  std::optional<std::size_t> id_;
  std::vector<std::size_t> features_;
};

std::uint64_t HashOf(std::string_view bytes) {
  Checksum sum;
  sum.Add(bytes);
  return sum.value();
}

/// Decides rows and answers them.
class StreamRun {
 public:
  StreamRun(const SelectOptions& options, const SelectInputs& inputs, stream::StreamSelector selector,
            std::unique_ptr<StreamJournal> journal)
      : options_(options), inputs_(inputs), selector_(std::move(selector)), journal_(std::move(journal)) {}

  absl::Status Run() {
    LineReader reader(STDIN_FILENO);
    FULCRUM_ASSIGN_OR_RETURN(std::vector<StreamLine> lines, reader.Next());
    if (lines.empty()) return absl::DataLossError("the stream is empty; it must begin with a line of column names");
    FULCRUM_ASSIGN_OR_RETURN(columns_,
                             StreamColumns::FromHeader(lines.front(), options_.columns.id, inputs_.feature_names));
    if (journal_ != nullptr && !columns_.has_ids()) {
      return absl::DataLossError("the stream has no column 'id'; with --state rows are recognised by it");
    }
    out_ = "id,score,threshold,decision\n";
    lines.erase(lines.begin());
    do {
      const absl::Status decided = Decide(lines);
      FULCRUM_RETURN_IF_ERROR(Answer());
      FULCRUM_RETURN_IF_ERROR(decided);
      FULCRUM_ASSIGN_OR_RETURN(lines, reader.Next());
    } while (!lines.empty());
    return absl::OkStatus();
  }

  const stream::StreamSelector& selector() const { return selector_; }

 private:
  struct Parsed {
    std::vector<std::string> ids;
    Matrix<double> raw;
    ingest::PoolFeatures features;  // normalised
    absl::Status status;            // of the line behind the last row
  };

  Parsed Parse(const std::vector<StreamLine>& lines) const {
    Parsed parsed;
    Matrix<double> rows(lines.size(), inputs_.feature_names.size());
    for (const StreamLine& line : lines) {
      absl::StatusOr<std::string> id = columns_.Parse(line, rows.row(parsed.ids.size()));
      if (!id.ok()) {
        parsed.status = id.status();
        break;
      }
      parsed.ids.push_back(columns_.has_ids() ? *std::move(id) : absl::StrCat(line.number - 2));
    }
    parsed.raw = Matrix<double>::CopyOf(std::as_const(rows).view().Rows(0, parsed.ids.size()));
    parsed.features = ingest::PoolFeatures(parsed.raw.Clone());
    if (!parsed.ids.empty()) inputs_.normalizer->Apply(parsed.features);
    return parsed;
  }

  /// Decides what comes before the first line that is wrong.
  absl::Status Decide(const std::vector<StreamLine>& lines) {
    const Parsed parsed = Parse(lines);
    const double now = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
    std::vector<StreamAnswer> fresh;
    places_.clear();
    absl::Status status = parsed.status;
    for (std::size_t i = 0; i < parsed.ids.size(); ++i) {
      const absl::Status decided = DecideRow(parsed, i, now, fresh);
      if (decided.ok()) continue;
      status = absl::Status(decided.code(), absl::StrCat("line ", lines[i].number, " of the stream (id '",
                                                         parsed.ids[i], "'): ", decided.message()));
      break;
    }
    if (journal_ != nullptr && !fresh.empty()) {
      const absl::Status durable = journal_->Append(fresh, selector_.State());
      if (!durable.ok()) {
        // What is not durable must not be answered.
        out_.clear();
        return durable;
      }
    }
    return status;
  }

  absl::Status DecideRow(const Parsed& parsed, std::size_t i, double now, std::vector<StreamAnswer>& fresh) {
    StreamAnswer answer;
    if (journal_ != nullptr) {
      const auto raw = parsed.raw.row(i);
      answer.id = HashOf(parsed.ids[i]);
      answer.content = HashOf({reinterpret_cast<const char*>(raw.data()), raw.size_bytes()});
      const StreamAnswer* known = journal_->Find(answer.id);
      if (const auto place = places_.find(answer.id); place != places_.end()) known = &fresh[place->second];
      if (known != nullptr) {
        if (known->content != answer.content) {
          return absl::AlreadyExistsError("a row with this id and other features was decided before");
        }
        Write(parsed.ids[i], *known);
        return absl::OkStatus();
      }
    }
    FULCRUM_ASSIGN_OR_RETURN(const stream::Decision decision, selector_.Offer(parsed.features.dense().row(i), now));
    answer.score = decision.score;
    answer.threshold = decision.threshold;
    answer.take = decision.take;
    if (journal_ != nullptr) {
      places_[answer.id] = fresh.size();
      fresh.push_back(answer);
    }
    Write(parsed.ids[i], answer);
    if (decision.drift_alarm) NoteDrift(parsed.ids[i]);
    return absl::OkStatus();
  }

  void NoteDrift(const std::string& id) const {
    std::fprintf(
        stderr,
        "fulcrum select: warning: the rows up to '%s' are not distributed as those of the pool (statistic %.2f "
        "times the value that raises an alarm)\n",
        PrintableLine(id).c_str(), selector_.drift().statistic);
  }

  void Write(const std::string& id, const StreamAnswer& answer) {
    ingest::AppendCsvField(id, out_);
    out_.push_back(',');
    AppendNumber(answer.score, out_);
    out_.push_back(',');
    AppendNumber(answer.threshold, out_);
    out_.append(answer.take ? ",label\n" : ",skip\n");
  }

  absl::Status Answer() {
    const bool written = std::fwrite(out_.data(), 1, out_.size(), stdout) == out_.size() && std::fflush(stdout) == 0;
    out_.clear();
    return written ? absl::OkStatus() : absl::DataLossError("cannot write to standard output");
  }

  const SelectOptions& options_;
  const SelectInputs& inputs_;
  stream::StreamSelector selector_;
  std::unique_ptr<StreamJournal> journal_;
  StreamColumns columns_;
  std::string out_;
  std::unordered_map<std::uint64_t, std::size_t> places_;  // of ids among the fresh answers
};

/// The classifier of the labels so far; none if they are of fewer than two classes.
absl::StatusOr<std::shared_ptr<const classify::SvmModel>> TrainClassifier(const SelectInputs& inputs,
                                                                          const RoundSpec& spec) {
  if (inputs.classes.size() < 2) return nullptr;
  RoundInput input;
  input.class_count = inputs.classes.size();
  input.labels = inputs.labels;
  input.always_classify = true;
  input.probabilities = true;
  input.select = false;
  FULCRUM_ASSIGN_OR_RETURN(const RoundResult result, RoundRunner(spec, *inputs.features).Run(input));
  return result.model;
}

void PrintNotes(const SelectOptions& options, const SelectInputs& inputs, const stream::StreamModel& model) {
  if (options.quiet) return;
  for (const std::string& note : inputs.notes) std::fprintf(stderr, "fulcrum select: note: %s\n", note.c_str());
  if (!options.verbose) return;
  std::fprintf(stderr, "fulcrum select: %zu landmarks, rank %zu, decision values off by %.2g of their size\n",
               model.landmarks(), model.rank(), model.decision_error());
}

void PrintSummary(const SelectOptions& options, const stream::StreamSelector& selector) {
  if (options.quiet) return;
  const stream::BudgetThreshold& threshold = selector.threshold();
  std::fprintf(stderr,
               "fulcrum select: note: %llu rows so far, %llu to label, %.1f allowed; %llu of %llu windows unlike the "
               "pool\n",
               static_cast<unsigned long long>(threshold.rows()), static_cast<unsigned long long>(threshold.taken()),
               threshold.due(), static_cast<unsigned long long>(selector.drift().alarms),
               static_cast<unsigned long long>(selector.drift().windows));
}

}  // namespace

absl::StatusOr<stream::Budget> ParseBudget(absl::string_view text) {
  stream::Budget budget;
  absl::string_view rest = text;
  double factor = 0.01;
  const auto number = [&]() { return ParseNumber(rest).value_or(-1); };
  constexpr std::pair<const char*, double> kUnits[] = {{"/s", 1}, {"/m", 60}, {"/h", 3600}, {"/d", 86400}};
  for (const auto& [unit, seconds] : kUnits) {
    if (!absl::ConsumeSuffix(&rest, unit)) continue;
    budget.per_second = number() / seconds;
    factor = 0;
  }
  if (factor != 0) {
    if (!absl::ConsumeSuffix(&rest, "%")) factor = 1;
    budget.share = number() * factor;
  }
  if (const absl::Status valid = stream::ValidateBudget(budget); !valid.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--budget is '", text,
                     "'; it must be a share such as 1% or 0.01, or labels per time such as 200/h (/s, /m, /d)"));
  }
  return budget;
}

absl::Status ValidateStreamOptions(const SelectOptions& options) {
  if (!options.stream.on) {
    if (options.stream.given) {
      return absl::InvalidArgumentError("--budget, --state, --novelty, --drift-window and --drift-rate need --stream");
    }
    return absl::OkStatus();
  }
  FULCRUM_RETURN_IF_ERROR(ParseBudget(options.stream.budget).status());
  if (!options.predictions.empty() || !options.scores.empty() || !options.report.empty() || options.out != "-") {
    return absl::InvalidArgumentError(
        "--stream writes its answers to standard output; leave --predictions, --scores, --report and --out out");
  }
  return absl::OkStatus();
}

absl::Status SelectFromStream(const SelectOptions& options, const SelectInputs& inputs, const RoundSpec& spec) {
  if (inputs.normalizer == nullptr || inputs.feature_names.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(options.pool,
                                                      ": the columns of a stream need names, and the "
                                                      "features of this pool have none (sparse)"));
  }
  stream::StreamOptions stream_options;
  FULCRUM_ASSIGN_OR_RETURN(stream_options.budget, ParseBudget(options.stream.budget));
  stream_options.novelty_weight = options.stream.novelty;
  stream_options.drift = {options.stream.drift_window, options.stream.drift_rate};
  std::unique_ptr<StreamJournal> journal;
  if (!options.stream.state.empty()) {
    FULCRUM_ASSIGN_OR_RETURN(journal, StreamJournal::Open(options.stream.state, {}));
  }
  FULCRUM_ASSIGN_OR_RETURN(const auto classifier, TrainClassifier(inputs, spec));
  stream::StreamModelOptions model_options;
  model_options.seed = options.seed;
  FULCRUM_ASSIGN_OR_RETURN(const auto model, stream::StreamModel::Make({.features = *inputs.features,
                                                                        .labels = inputs.labels,
                                                                        .classifier = classifier.get(),
                                                                        .kernel = spec.leverage_kernel},
                                                                       model_options));
  FULCRUM_ASSIGN_OR_RETURN(stream::StreamSelector selector, stream::StreamSelector::Make(model, stream_options));
  if (journal != nullptr && !journal->state().empty()) {
    if (const absl::Status restored = selector.Restore(journal->state()); !restored.ok()) {
      return absl::Status(restored.code(), absl::StrCat(options.stream.state, ": ", restored.message(),
                                                        "\n  what to do: use the options it was begun with, or "
                                                        "another file for --state"));
    }
  }
  PrintNotes(options, inputs, *model);
  StreamRun run(options, inputs, std::move(selector), std::move(journal));
  const absl::Status status = run.Run();
  PrintSummary(options, run.selector());
  return status;
}

}  // namespace fulcrum::pipeline
