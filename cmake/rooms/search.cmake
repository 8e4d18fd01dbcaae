# What earlier measurements say of families of operators goes into the binary as bytes (tcc/search/shipped_prior.h).
if(TARGET tcc_search)
  tcc_embed(tcc_search tcc_shipped_prior ${CMAKE_SOURCE_DIR}/models/cpu.prior)
endif()
