// The versions of this program and of the libraries under it, for `fulcrum --version` and for reports.
#pragma once

#include <string>
#include <vector>

namespace fulcrum::pipeline {

struct LibraryVersion {
  std::string name;
  std::string version;
};

/// Fulcrum's own.
std::string ProgramVersion();

/// Arrow, oneTBB, the linear algebra, gRPC, Protocol Buffers and SQLite, as reported by the loaded libraries
/// (Protocol Buffers reports none, but refuses to run with a version other than that of its headers).
std::vector<LibraryVersion> LibraryVersions();

/// All versions, one per line.
std::string VersionText();

}  // namespace fulcrum::pipeline
