// Which folder may include what: the direction of dependencies as two tables, and the check of a file against them.
#pragma once

#include <string>
#include <vector>

namespace fulcrum::architecture {

/// A folder of the tree and the other folders whose headers its files may include.
struct FolderRule {
  std::string folder;
  std::vector<std::string> may_include;
};

/// A library and the folders or files that may include its headers; tests may include any.
struct LibraryRule {
  std::string library;
  std::vector<std::string> header_prefixes;
  std::vector<std::string> allowed_in;
  std::string reason;
};

const std::vector<FolderRule>& FolderRules();
const std::vector<LibraryRule>& LibraryRules();

/// A source file, its path counted from the root of the tree.
struct SourceFile {
  std::string path;
  std::string content;
};

/// Every .h and .cc file of a folder and of those in it.
std::vector<SourceFile> ReadSources(const std::string& root, const std::string& folder);

/// Every .h and .cc file of the folders that have rules or ought to: stages, storage, pipeline and clients.
std::vector<SourceFile> ReadSourceTree(const std::string& root);

/// The headers that a file includes in quotes.
std::vector<std::string> QuotedIncludes(const SourceFile& file);

/// One line for every include that breaks a rule, with its file and line number and why it is wrong.
std::vector<std::string> FindViolations(const SourceFile& file);

}  // namespace fulcrum::architecture
