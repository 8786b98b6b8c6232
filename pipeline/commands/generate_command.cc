// `fulcrum generate`: artificial problems as CSV.

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "pipeline/commands/command_line.h"
#include "pipeline/text/text_sink.h"
#include "stages/core/matrix.h"
#include "stages/core/number_text.h"
#include "stages/core/parallel.h"
#include "stages/core/status_macros.h"
#include "stages/ingest/synthetic.h"

namespace fulcrum::pipeline {
namespace {

constexpr char kGenerateFooter[] =
    R"(twonorm and ringnorm are after Breiman (1996), as in mlbench. The ringnorm of Delve has a = 2/sqrt(dims): --mean-factor 2.

Output: CSV with the columns label,f0,f1,..., and for digits image: a PNG as a data URL. A row depends
on the seed and its number only, so more rows continue fewer. The file appears when it is whole; a name that ends in .gz or .zst is compressed.

Example:
  fulcrum generate ringnorm --rows 7400 --seed 1 --out ringnorm.csv.gz)";

constexpr std::uint64_t kMostGeneratedRows = 4294967295;  // what a row number can count
constexpr std::size_t kDefaultDims = 20;
constexpr std::size_t kDigitDims = 256;  // 16 x 16 pixels
constexpr std::size_t kMostDims = 1000000;
constexpr std::size_t kRowsPerTask = 256;
constexpr std::size_t kTasksPerWrite = 32;

struct GenerateOptions {
  std::string problem;
  std::uint64_t rows = 0;
  std::size_t dims = 0;  // zero: the problem's own
  std::uint64_t seed = 1;
  double mean_factor = 0;  // zero: the problem's own
  std::string out = "-";
};

absl::StatusOr<ingest::SyntheticSpec> MakeSpec(const GenerateOptions& options) {
  FULCRUM_ASSIGN_OR_RETURN(const auto problem, ingest::ParseSyntheticProblem(options.problem));
  ingest::SyntheticSpec spec;
  spec.problem = problem;
  spec.seed = options.seed;
  spec.mean_factor = options.mean_factor > 0 ? options.mean_factor : ingest::BreimanMeanFactor(problem);
  return spec;
}

std::string Header(bool images, std::size_t dims) {
  std::string line = "label";
  for (std::size_t i = 0; i < dims; ++i) absl::StrAppend(&line, ",f", i);
  return line + (images ? ",image\n" : "\n");
}

std::string Rows(const ingest::SyntheticSpec& spec, std::size_t dims, std::uint64_t first, std::size_t count) {
  std::string text;
  std::vector<double> features(dims);
  for (std::uint64_t row = first; row < first + count; ++row) {
    absl::StrAppend(&text, ingest::GenerateRow(spec, row, features));
    for (double value : features) {
      text.push_back(',');
      AppendNumber(value, text);
    }
    if (spec.problem == ingest::SyntheticProblem::kDigits)
      absl::StrAppend(&text, ",\"", ingest::ImageUrl(features), "\"");
    text.push_back('\n');
  }
  return text;
}

// Tasks make their rows as text in parallel; the texts are written in order.
absl::Status WriteRows(const ingest::SyntheticSpec& spec, const GenerateOptions& options, TextSink& sink) {
  for (std::uint64_t first = 0; first < options.rows; first += kRowsPerTask * kTasksPerWrite) {
    const std::size_t count = std::min<std::uint64_t>(kRowsPerTask * kTasksPerWrite, options.rows - first);
    std::vector<std::string> texts((count + kRowsPerTask - 1) / kRowsPerTask);
    ParallelForBlocks(count, kRowsPerTask, [&](std::size_t begin, std::size_t size) {
      texts[begin / kRowsPerTask] = Rows(spec, options.dims, first + begin, size);
    });
    for (const std::string& text : texts) FULCRUM_RETURN_IF_ERROR(sink.Write(text));
  }
  return absl::OkStatus();
}

absl::Status Generate(GenerateOptions options) {
  FULCRUM_ASSIGN_OR_RETURN(const ingest::SyntheticSpec spec, MakeSpec(options));
  const bool images = spec.problem == ingest::SyntheticProblem::kDigits;
  if (options.dims == 0) options.dims = images ? kDigitDims : kDefaultDims;
  FULCRUM_ASSIGN_OR_RETURN(const std::unique_ptr<TextSink> sink, OpenTextSink(options.out));
  FULCRUM_RETURN_IF_ERROR(sink->Write(Header(images, options.dims)));
  FULCRUM_RETURN_IF_ERROR(WriteRows(spec, options, *sink));
  FULCRUM_RETURN_IF_ERROR(sink->Finish());
  return sink->Commit();
}

CommandRun AddGenerate(CLI::App& app) {
  auto options = std::make_shared<GenerateOptions>();
  app.add_option("problem", options->problem, "One of the problems below")->type_name("")->required();
  app.add_option("--rows", options->rows, "How many rows, at least 1")
      ->type_name("N")
      ->required()
      ->check(WholeNumber())
      ->check(CLI::Range(std::uint64_t{1}, kMostGeneratedRows).description(""));
  app.add_option("--dims", options->dims, "How many features, at least 1; unless given 20, and 256 for digits")
      ->type_name("N")
      ->check(WholeNumber())
      ->check(CLI::Range(std::size_t{1}, kMostDims).description(""));
  app.add_option("--seed", options->seed, "The same seed gives the same rows everywhere")
      ->type_name("N")
      ->capture_default_str()
      ->check(WholeNumber());
  app.add_option("--mean-factor", options->mean_factor,
                 "The numerator of a; 2 for twonorm and 1 for ringnorm unless given")
      ->type_name("NUMBER")
      ->check(CLI::Validator(CLI::PositiveNumber).description(""));
  app.add_option("--out", options->out, "CSV file to write; - is standard output")
      ->type_name("FILE")
      ->capture_default_str();
  std::string problems = "Problems:\n";
  for (const ingest::SyntheticEntry& entry : ingest::SyntheticProblems()) {
    absl::StrAppendFormat(&problems, "  %-13s %s\n", entry.name, entry.summary);
  }
  app.footer(problems + kGenerateFooter);
  return [options] { return Generate(*options); };
}

}  // namespace

Command GenerateCommand() {
  return {"generate", "Data", "Make an artificial data set (ringnorm, words, moons, ...)", AddGenerate};
}

}  // namespace fulcrum::pipeline
