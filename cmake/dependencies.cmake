# Third-party packages. Each is private to one room except fmt, tl::expected and nlohmann's forward header.
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(SQLite3 REQUIRED)
find_package(Protobuf REQUIRED)
find_package(tl-expected REQUIRED)
find_package(Eigen3 REQUIRED)
find_path(TCC_MINIZIP_INCLUDE minizip/unzip.h REQUIRED)
find_library(TCC_MINIZIP NAMES minizip REQUIRED)
find_package(LLVM 19.1 REQUIRED CONFIG HINTS /usr/lib/llvm-19/lib/cmake/llvm)

# lld links shared libraries in-process where it is installed; otherwise tcc runs the system linker.
find_library(TCC_LLD_ELF NAMES lldELF HINTS /usr/lib/llvm-19/lib)
find_library(TCC_LLD_COMMON NAMES lldCommon HINTS /usr/lib/llvm-19/lib)

# The CUDA headers are optional: without nvrtc.h the CUDA backend is not built and `tcc targets` says so.
# The libraries themselves are opened at run time.
find_path(TCC_NVRTC_INCLUDE nvrtc.h HINTS /usr/local/cuda/include /usr/local/cuda/targets/x86_64-linux/include)
