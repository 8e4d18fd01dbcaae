if(TARGET tcc_driver)
  target_compile_definitions(tcc_driver PRIVATE TCC_VERSION="${PROJECT_VERSION}")
endif()
