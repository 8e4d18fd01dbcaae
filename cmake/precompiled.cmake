# Headers of the standard library, fmt, expected and Catch2 are parsed once instead of in every source. Headers of tcc are
# not among them: a change of one compiles what includes it, and nothing else. Every source still includes what it uses;
# the presets without precompiled headers (dev, asan, tsan, lto, portable) show where one does not.
option(TCC_PRECOMPILED "Parse the headers of libraries once" OFF)

# Several sources of these targets are compiled as one: headers are parsed and templates instantiated once for all of them.
# Names in their anonymous namespaces are unique in a target. Sources with options of their own stay alone. The presets for
# development compile each source alone, so that a change compiles one.
option(TCC_UNITY "Compile several sources as one" OFF)
set(TCC_UNITY_SOURCES 8)
set(TCC_UNITY_TARGETS
  tcc_onnx tcc_task tcc_construct tcc_schedule tcc_lower tcc_codegen tcc_codegen_cuda tcc_record tcc_search tcc_driver
  tcc_cli test_analysis test_cli test_codegen test_cost test_cuda test_data test_driver test_features test_schedule
  test_space test_task test_traces tcc-bench)

set(TCC_PRECOMPILED_HEADERS
  <algorithm> <array> <atomic> <bit> <chrono> <cmath> <cstdint> <cstdio> <cstdlib> <cstring> <filesystem> <functional> <limits>
  <map> <memory> <mutex> <numeric> <optional> <set> <span> <string> <string_view> <tuple> <unordered_map> <unordered_set>
  <utility> <variant> <vector> <fmt/format.h> <fmt/ranges.h> <tl/expected.hpp>)

# Tests take a fifth less time to compile with -O1, and what they test is compiled with -O2.
set(TCC_TEST_OPTIONS $<$<CONFIG:Release>:-O1>)

# GCC takes precompiled headers only where the code has the same kind of addresses, -fPIC in rooms and -fPIE in programs,
# and the same optimization.
# tcc_precompile(<target> <rooms|programs|tests>)
function(tcc_precompile target kind)
  if(TCC_UNITY AND target IN_LIST TCC_UNITY_TARGETS)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${TCC_UNITY_SOURCES})
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage)  # which takes an included source for a header
  endif()
  if(NOT TCC_PRECOMPILED)
    return()
  endif()
  if(NOT TARGET tcc_precompiled_${kind})
    add_library(tcc_precompiled_${kind} OBJECT ${CMAKE_SOURCE_DIR}/cmake/precompiled.cpp)
    target_link_libraries(tcc_precompiled_${kind} PRIVATE ${TCC_FMT} tl::expected)
    set(headers ${TCC_PRECOMPILED_HEADERS})
    if(NOT kind STREQUAL rooms)
      set_target_properties(tcc_precompiled_${kind} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
      target_compile_options(tcc_precompiled_${kind} PRIVATE -fPIE)
    endif()
    if(kind STREQUAL tests)
      list(APPEND headers <catch2/catch.hpp>)
      target_link_libraries(tcc_precompiled_tests PRIVATE Catch2::Catch2)
      target_compile_options(tcc_precompiled_tests PRIVATE ${TCC_TEST_OPTIONS})
    endif()
    target_precompile_headers(tcc_precompiled_${kind} PRIVATE ${headers})
  endif()
  target_precompile_headers(${target} REUSE_FROM tcc_precompiled_${kind})
endfunction()
