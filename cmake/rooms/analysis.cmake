# The loops of array programs, once for each level of x86-64; src/analysis/columns.cpp chooses at run time. Contraction is
# off: every level computes the same bits.
if(TARGET tcc_analysis)
  set(analysis_avx2 "-march=x86-64-v3")
  set(analysis_avx512 "-march=x86-64-v4")
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    foreach(level plain avx2 avx512)
      set_source_files_properties(${CMAKE_SOURCE_DIR}/src/analysis/columns/level_${level}.cpp PROPERTIES
        COMPILE_OPTIONS "${analysis_${level}};-ffp-contract=off;-Wno-psabi" SKIP_PRECOMPILE_HEADERS ON)
    endforeach()
  else()
    get_target_property(analysis_sources tcc_analysis SOURCES)
    list(FILTER analysis_sources EXCLUDE REGEX "/level_avx[0-9]+.cpp$")
    set_target_properties(tcc_analysis PROPERTIES SOURCES "${analysis_sources}")
  endif()
endif()
