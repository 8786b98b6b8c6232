// Limits for the size of files and folders, and budgets for the numbers of files and of headers with one includer.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/architecture/include_rules.h"

namespace fulcrum::architecture {
namespace {

constexpr std::size_t kMostLines = 450;
constexpr std::size_t kMostFilesInFolder = 30;
// What the tree has. A new concept may need a file: raise the number then, or merge what belongs together.
constexpr std::size_t kMostSources = 421;
constexpr std::size_t kMostHeadersWithOneIncluder = 7;

constexpr const char* kFolders[] = {"stages", "storage", "pipeline", "clients", "tests"};

std::string Listed(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += "\n  " + name;
  return text;
}

/// All .cc and .h files, by path.
std::vector<SourceFile> SourcesIn(const std::vector<std::string>& folders) {
  std::vector<SourceFile> files;
  for (const std::string& folder : folders) {
    for (SourceFile& file : ReadSources(FULCRUM_SOURCE_DIR, folder)) files.push_back(std::move(file));
  }
  return files;
}

TEST(StructureTest, NoSourceFileIsLong) {
  const std::vector<SourceFile> files = SourcesIn({std::begin(kFolders), std::end(kFolders)});
  ASSERT_GT(files.size(), 400U);
  for (const SourceFile& file : files) {
    const auto lines = static_cast<std::size_t>(std::ranges::count(file.content, '\n'));
    EXPECT_LE(lines, kMostLines) << file.path << ": split it by concept";
  }
}

TEST(StructureTest, NoFolderHasManyFiles) {
  std::map<std::string, std::size_t> counts;
  for (const char* const folder : kFolders) {
    const std::filesystem::path root = std::filesystem::path(FULCRUM_SOURCE_DIR) / folder;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
      const std::string name = entry.path().filename();
      if (!entry.is_regular_file() || name.starts_with('.') || name.ends_with(".pyc")) continue;
      ++counts[entry.path().parent_path().lexically_relative(FULCRUM_SOURCE_DIR)];
    }
  }
  ASSERT_TRUE(counts.contains("pipeline/campaign"));
  for (const auto& [folder, count] : counts) {
    EXPECT_LE(count, kMostFilesInFolder) << folder << ": move some of them to a subfolder";
  }
}

TEST(StructureTest, TheNumberOfSourceFilesIsWithinItsBudget) {
  EXPECT_LE(SourcesIn({"stages", "storage", "pipeline", "clients"}).size(), kMostSources)
      << "merge what belongs together, or raise the budget for a new concept";
}

TEST(StructureTest, HeadersHaveMoreThanOneIncluder) {
  const std::vector<SourceFile> files = SourcesIn({"stages", "storage", "pipeline", "clients"});
  std::map<std::string, std::set<std::string>> includers;
  for (const SourceFile& file : files) {
    const std::string own = file.path.ends_with(".cc") ? file.path.substr(0, file.path.size() - 3) + ".h" : "";
    for (const std::string& header : QuotedIncludes(file)) {
      if (header != own) includers[header].insert(file.path);
    }
  }
  std::vector<std::string> lonely;
  for (const SourceFile& file : files) {
    if (file.path.ends_with(".h") && includers[file.path].size() <= 1) lonely.push_back(file.path);
  }
  EXPECT_LE(lonely.size(), kMostHeadersWithOneIncluder)
      << "put the new one into its includer, or into the header of its concept:" << Listed(lonely);
}

}  // namespace
}  // namespace fulcrum::architecture
