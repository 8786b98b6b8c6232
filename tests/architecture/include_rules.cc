#include "tests/architecture/include_rules.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>

#include "absl/strings/ascii.h"
#include "absl/strings/strip.h"

namespace fulcrum::architecture {

// stages/core <- stages/* <- storage <- pipeline/round <- campaign <- report <- server <- web <- operation <- commands
const std::vector<FolderRule>& FolderRules() {
  static const auto* const rules = new std::vector<FolderRule>{
      {"stages/core", {}},
      {"stages/ingest", {"stages/core"}},
      {"stages/linalg", {"stages/core"}},
      {"stages/kernel", {"stages/core", "stages/linalg"}},
      {"stages/classify", {"stages/core", "stages/linalg", "stages/kernel"}},
      {"stages/consensus", {"stages/core"}},
      {"stages/stream", {"stages/core", "stages/linalg", "stages/kernel", "stages/classify"}},
      {"stages/leverage", {"stages/core", "stages/linalg", "stages/kernel"}},
      {"stages/select", {"stages/core", "stages/linalg", "stages/kernel", "stages/leverage"}},
      {"storage", {"stages/"}},
      {"pipeline/text", {"stages/core", "stages/ingest", "stages/linalg"}},
      {"pipeline/round", {"stages/", "storage/pool"}},
      {"pipeline/cluster", {"stages/", "pipeline/round"}},
      {"pipeline/onnx", {"stages/", "pipeline/text"}},
      {"pipeline/campaign", {"stages/", "storage", "pipeline/text", "pipeline/round", "pipeline/onnx"}},
      {"pipeline/report", {"stages/", "storage", "pipeline/text", "pipeline/round", "pipeline/campaign"}},
      {"pipeline/server",
       {"stages/", "storage", "pipeline/text", "pipeline/round", "pipeline/campaign", "pipeline/report"}},
      {"pipeline/web", {"stages/core", "pipeline/text", "pipeline/campaign", "pipeline/server"}},
      {"pipeline/operation",
       {"stages/core", "pipeline/text", "pipeline/round", "pipeline/campaign", "pipeline/server", "pipeline/web"}},
      {"pipeline/client", {"stages/core", "stages/ingest", "pipeline/text"}},
      {"pipeline/experiment", {"stages/", "pipeline/text", "pipeline/round"}},
      {"pipeline/commands", {"stages/", "storage", "pipeline/"}},
      {"clients/python/core", {"stages/", "pipeline/round"}},
  };
  return *rules;
}

const std::vector<LibraryRule>& LibraryRules() {
  static const auto* const rules = new std::vector<LibraryRule>{
      {"BLAS and LAPACK",
       {"mkl", "cblas", "lapacke", "openblas"},
       {"stages/linalg/"},
       "one folder hides which linear algebra is below"},
      {"Arrow and Parquet",
       {"arrow/", "parquet/"},
       {"stages/ingest/", "storage/", "pipeline/"},
       "the numerical stages see matrices, never files"},
      {"SQLite",
       {"sqlite3"},
       {"storage/", "pipeline/text/version.cc"},
       "one folder keeps the promises about what is durable"},
      {"gRPC and Protocol Buffers",
       {"grpc", "google/protobuf/", "fulcrum/v1/"},
       {"pipeline/"},
       "stages and storage work without a network"},
      {"oneTBB's flow graph",
       {"tbb/flow_graph", "oneapi/tbb/flow_graph"},
       {"pipeline/round/"},
       "stages are functions; how they are chained is decided in one place"},
      {"the command line and its formats",
       {"CLI/", "nlohmann/", "yaml-cpp/"},
       {"pipeline/"},
       "stages and storage take structs, not text"},
      {"Prometheus and systemd",
       {"prometheus/", "systemd/"},
       {"pipeline/operation/"},
       "one folder is what others watch the daemon by"},
      {"MPI", {"mpi.h"}, {"pipeline/cluster/mpi_communicator.cc"}, "one file is what processes exchange data by"},
      {"pybind11", {"pybind11/"}, {"clients/python/core/"}, "one folder is the extension module of the Python package"},
      {"Boost", {"boost/"}, {"pipeline/web/"}, "one folder is the HTTP server of the API and the page"},
      {"LIBSVM", {"svm.h", "libsvm/"}, {}, "it is what the classifier is tested against"},
      {"nghttp2", {"nghttp2/"}, {}, "it is what the daemon is loaded with in a benchmark"},
      {"test code", {"tests/", "gtest/", "gmock/", "benchmark/"}, {}, "the program does not depend on its tests"},
  };
  return *rules;
}

namespace {

bool StartsWithAny(const std::string& text, const std::vector<std::string>& prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(), [&](const auto& prefix) { return text.starts_with(prefix); });
}

bool IsInside(const std::string& path, const std::string& folder) {
  return folder.ends_with('/') ? path.starts_with(folder) : path.starts_with(folder + "/");
}

const FolderRule* RuleOfFolder(const std::string& path) {
  for (const FolderRule& rule : FolderRules()) {
    if (IsInside(path, rule.folder)) return &rule;
  }
  return nullptr;
}

struct Include {
  std::string header;
  bool in_quotes = false;
};

std::optional<Include> ParseInclude(const std::string& line) {
  absl::string_view rest = absl::StripLeadingAsciiWhitespace(line);
  if (!absl::ConsumePrefix(&rest, "#")) return std::nullopt;
  rest = absl::StripLeadingAsciiWhitespace(rest);
  if (!absl::ConsumePrefix(&rest, "include")) return std::nullopt;
  rest = absl::StripLeadingAsciiWhitespace(rest);
  if (rest.empty() || (rest[0] != '<' && rest[0] != '"')) return std::nullopt;
  const std::size_t end = rest.find(rest[0] == '<' ? '>' : '"', 1);
  if (end == absl::string_view::npos) return std::nullopt;
  return Include{std::string(rest.substr(1, end - 1)), rest[0] == '"'};
}

/// What is wrong with one include, if anything.
std::optional<std::string> Judge(const std::string& path, const FolderRule& rule, const Include& include) {
  const std::string& header = include.header;
  if (header.starts_with('.') || (include.in_quotes && header.find('/') == std::string::npos)) {
    return "our headers are included by their path from the root";
  }
  for (const LibraryRule& library : LibraryRules()) {
    if (StartsWithAny(header, library.header_prefixes) && !StartsWithAny(path, library.allowed_in)) {
      return library.library + " must not be included here: " + library.reason;
    }
  }
  const bool ours = header.starts_with("stages/") || header.starts_with("storage/") || header.starts_with("pipeline/");
  if (!ours || IsInside(header, rule.folder)) return std::nullopt;
  const bool allowed = std::any_of(rule.may_include.begin(), rule.may_include.end(),
                                   [&](const auto& folder) { return IsInside(header, folder); });
  if (allowed) return std::nullopt;
  return rule.folder + " may not depend on it";
}

}  // namespace

std::vector<std::string> FindViolations(const SourceFile& file) {
  const FolderRule* rule = RuleOfFolder(file.path);
  if (rule == nullptr) return {file.path + ": its folder has no rule; add one to FolderRules()"};
  std::vector<std::string> violations;
  std::istringstream lines(file.content);
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    const std::optional<Include> include = ParseInclude(line);
    if (!include.has_value()) continue;
    if (const auto fault = Judge(file.path, *rule, *include)) {
      violations.push_back(file.path + ":" + std::to_string(number) + ": " + include->header + ": " + *fault);
    }
  }
  return violations;
}

std::vector<std::string> QuotedIncludes(const SourceFile& file) {
  std::vector<std::string> headers;
  std::istringstream lines(file.content);
  for (std::string line; std::getline(lines, line);) {
    const std::optional<Include> include = ParseInclude(line);
    if (include && include->in_quotes) headers.push_back(include->header);
  }
  return headers;
}

std::vector<SourceFile> ReadSources(const std::string& root, const std::string& folder) {
  std::vector<SourceFile> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(std::filesystem::path(root) / folder)) {
    const std::string extension = entry.path().extension();
    if (extension != ".h" && extension != ".cc") continue;
    std::ifstream stream(entry.path(), std::ios::binary);
    files.push_back({std::filesystem::relative(entry.path(), root).string(),
                     std::string(std::istreambuf_iterator<char>(stream), {})});
  }
  return files;
}

std::vector<SourceFile> ReadSourceTree(const std::string& root) {
  std::vector<SourceFile> files;
  for (const char* folder : {"stages", "storage", "pipeline", "clients"}) {
    for (SourceFile& file : ReadSources(root, folder)) files.push_back(std::move(file));
  }
  return files;
}

}  // namespace fulcrum::architecture
