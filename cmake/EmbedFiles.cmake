# Writes a C++ file with the content of other files: cmake -DOUTPUT=FILE -DFOLDER=FOLDER -DFILES=a,b -P EmbedFiles.cmake
# Files are relative to FOLDER, or absolute paths, and become the paths "/a" and "/b" of pipeline/web/web_site.h; index.html is "/".
string(REPLACE "," ";" FILES "${FILES}")
set(arrays "")
set(entries "")
set(number 0)
foreach(name IN LISTS FILES)
  get_filename_component(file "${name}" ABSOLUTE BASE_DIR "${FOLDER}")
  file(READ "${file}" bytes HEX)
  string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
  get_filename_component(path "${name}" NAME)
  if(path STREQUAL "index.html")
    set(path "")
  endif()
  string(APPEND arrays "const unsigned char kFile${number}[] = {${bytes}0};\n")
  string(APPEND entries "      {\"/${path}\", {reinterpret_cast<const char*>(kFile${number}), sizeof(kFile${number}) - 1}},\n")
  math(EXPR number "${number} + 1")
endforeach()
file(WRITE "${OUTPUT}" "#include \"pipeline/web/web_site.h\"

namespace fulcrum::pipeline {
namespace {
${arrays}}  // namespace

std::span<const WebAsset> WebAssets() {
  static const WebAsset assets[] = {
${entries}  };
  return assets;
}

}  // namespace fulcrum::pipeline
")
