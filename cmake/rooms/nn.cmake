# The arithmetic of the networks, once for each level of x86-64; src/nn/level.cpp chooses at run time. Contraction is
# asked for: in ISO mode GCC fuses no multiplication with an addition.
if(TARGET tcc_nn)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    foreach(level v2 v3 v4)
      set_source_files_properties(${CMAKE_SOURCE_DIR}/src/nn/kernels_${level}.cpp PROPERTIES
        COMPILE_OPTIONS "-march=x86-64-${level};-ffp-contract=fast;-Wno-psabi" SKIP_PRECOMPILE_HEADERS ON)
    endforeach()
  else()
    get_target_property(nn_sources tcc_nn SOURCES)
    list(FILTER nn_sources EXCLUDE REGEX "/kernels_v[34].cpp$")
    set_target_properties(tcc_nn PROPERTIES SOURCES "${nn_sources}")
  endif()
endif()
