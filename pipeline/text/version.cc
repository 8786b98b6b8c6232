#include "pipeline/text/version.h"

#include <google/protobuf/stubs/common.h>
#include <grpcpp/grpcpp.h>
#include <sqlite3.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "stages/ingest/arrow_status.h"
#include "stages/linalg/blas.h"
#include "tbb/version.h"

namespace fulcrum::pipeline {

std::string ProgramVersion() {
  return FULCRUM_VERSION;
}

std::vector<LibraryVersion> LibraryVersions() {
  return {
      {"Arrow", ingest::ArrowVersion()},
      {"oneTBB", TBB_runtime_version()},
      {linalg::LibraryName(), linalg::LibraryVersion()},
      {"gRPC", grpc::Version()},
      {"Protocol Buffers", google::protobuf::internal::VersionString(GOOGLE_PROTOBUF_VERSION)},
      {"SQLite", sqlite3_libversion()},
  };
}

std::string VersionText() {
  std::string text = absl::StrCat("fulcrum ", ProgramVersion());
  for (const LibraryVersion& library : LibraryVersions()) {
    absl::StrAppendFormat(&text, "\n  %-16s %s", library.name, library.version);
  }
  return text;
}

}  // namespace fulcrum::pipeline
