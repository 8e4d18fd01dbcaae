# Packed pools are gzip files, which nothing outside the room knows.
if(TARGET tcc_data)
  find_path(TCC_ZLIB_INCLUDE zlib.h REQUIRED)
  find_library(TCC_ZLIB NAMES z REQUIRED)
  target_include_directories(tcc_data SYSTEM PRIVATE ${TCC_ZLIB_INCLUDE})
  target_link_libraries(tcc_data PRIVATE ${TCC_ZLIB})
endif()
