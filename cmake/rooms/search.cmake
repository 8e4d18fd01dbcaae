# What earlier measurements say of families of operators goes into the binary as bytes (tcc/search/shipped_prior.h).
if(TARGET tcc_search)
  set(TCC_SHIPPED_PRIOR ${CMAKE_SOURCE_DIR}/models/cpu.prior)
  configure_file(${CMAKE_SOURCE_DIR}/src/search/shipped_bytes.S.in ${CMAKE_BINARY_DIR}/shipped_bytes.S @ONLY)
  set_source_files_properties(${CMAKE_BINARY_DIR}/shipped_bytes.S PROPERTIES OBJECT_DEPENDS "${TCC_SHIPPED_PRIOR}")
  target_sources(tcc_search PRIVATE ${CMAKE_BINARY_DIR}/shipped_bytes.S)
endif()
