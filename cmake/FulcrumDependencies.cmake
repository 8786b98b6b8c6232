# All libraries that Fulcrum depends on. `./dev setup` installs them.

find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(TBB REQUIRED)
find_package(absl REQUIRED)
find_package(spdlog REQUIRED)
find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(Arrow REQUIRED)
find_package(Parquet REQUIRED)
find_package(Protobuf REQUIRED)
find_package(GTest REQUIRED)
find_package(benchmark REQUIRED)
include(GoogleTest)
include(FulcrumBlas)

pkg_check_modules(grpcpp REQUIRED IMPORTED_TARGET grpc++)
find_library(FULCRUM_GRPC_REFLECTION grpc++_reflection REQUIRED)
find_program(FULCRUM_GRPC_CPP_PLUGIN grpc_cpp_plugin REQUIRED)
pkg_check_modules(sqlite3 REQUIRED IMPORTED_TARGET sqlite3)
pkg_check_modules(zlib REQUIRED IMPORTED_TARGET zlib)
pkg_check_modules(libcrypto REQUIRED IMPORTED_TARGET libcrypto)
pkg_check_modules(libsystemd REQUIRED IMPORTED_TARGET libsystemd)
# The client of the daemon benchmark; nothing outside tests/ may link it.
pkg_check_modules(nghttp2 REQUIRED IMPORTED_TARGET libnghttp2)
# The CMake package of prometheus-cpp requires libraries of components that are not used here.
find_library(FULCRUM_PROMETHEUS prometheus-cpp-core REQUIRED)

# The reference implementation in classifier tests; nothing outside tests/ may link it.
find_library(FULCRUM_LIBSVM svm REQUIRED)
