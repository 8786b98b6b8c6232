// The files of clients/web, compiled into the program by cmake/EmbedFiles.cmake. Immutable.
#pragma once

#include <span>
#include <string_view>

namespace fulcrum::pipeline {

struct WebAsset {
  std::string_view path;  ///< such as "/app.js"
  std::string_view content;
};

std::span<const WebAsset> WebAssets();

}  // namespace fulcrum::pipeline
