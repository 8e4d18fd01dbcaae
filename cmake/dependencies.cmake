if(TCC_PORTABLE)
  set(CMAKE_FIND_LIBRARY_SUFFIXES .a)
  set(Protobuf_USE_STATIC_LIBS ON)
endif()

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
find_path(TCC_BOOST_INCLUDE boost/math/distributions/students_t.hpp REQUIRED)  # Boost.Math, headers only
find_path(TCC_MINIZIP_INCLUDE minizip/unzip.h REQUIRED)
find_library(TCC_MINIZIP NAMES minizip REQUIRED)
if(TCC_WITH_LLVM)
  find_package(LLVM 19.1 REQUIRED CONFIG HINTS /usr/lib/llvm-19/lib/cmake/llvm)
  # lld links shared libraries in-process where it is installed; otherwise tcc runs the system linker.
  find_library(TCC_LLD_ELF NAMES lldELF HINTS /usr/lib/llvm-19/lib)
  find_library(TCC_LLD_COMMON NAMES lldCommon HINTS /usr/lib/llvm-19/lib)
endif()

# fmt and spdlog are compiled into portable programs: distributions have them as shared libraries.
set(TCC_FMT fmt::fmt)
set(TCC_SPDLOG spdlog::spdlog)
set(TCC_STATIC_LIBS "")
if(TCC_PORTABLE)
  set(TCC_FMT fmt::fmt-header-only)
  set(TCC_SPDLOG spdlog::spdlog_header_only)
  set_target_properties(spdlog::spdlog_header_only PROPERTIES INTERFACE_LINK_LIBRARIES "Threads::Threads;fmt::fmt-header-only")
  find_library(TCC_STATIC_ZLIB NAMES z REQUIRED)
  set(TCC_STATIC_LIBS ${TCC_STATIC_ZLIB} m)  # of minizip and SQLite
  if(TCC_WITH_LLVM)
    # LLVM's archives name shared libraries. Two have archives, too; nothing here calls the solver that needs Z3.
    find_library(TCC_STATIC_ZSTD NAMES zstd REQUIRED)
    set_target_properties(LLVMSupport PROPERTIES
                          INTERFACE_LINK_LIBRARIES "rt;dl;m;${TCC_STATIC_ZLIB};${TCC_STATIC_ZSTD};LLVMDemangle")
  endif()
endif()

# The CUDA headers are optional: without nvrtc.h the CUDA backend is not built and `tcc targets` says so.
# The libraries themselves are opened at run time.
find_path(TCC_NVRTC_INCLUDE nvrtc.h HINTS /usr/local/cuda/include /usr/local/cuda/targets/x86_64-linux/include)
