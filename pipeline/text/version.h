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

/// Arrow, oneTBB, the linear algebra, gRPC, Protocol Buffers and SQLite, asked of the loaded libraries
/// (Protocol Buffers has no such question; it refuses to run with another version than its headers').
std::vector<LibraryVersion> LibraryVersions();

/// All of it, a line each.
std::string VersionText();

}  // namespace fulcrum::pipeline
