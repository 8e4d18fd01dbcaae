# The archives of NumPy are read and written with minizip, and Boost.Math has Student's t distribution; nothing outside
# the room sees them.
if(TARGET tcc_driver)
  target_compile_definitions(tcc_driver PRIVATE TCC_VERSION="${PROJECT_VERSION}")
  target_include_directories(tcc_driver SYSTEM PRIVATE ${TCC_MINIZIP_INCLUDE} ${TCC_BOOST_INCLUDE})
  target_link_libraries(tcc_driver PRIVATE ${TCC_MINIZIP} ${TCC_STATIC_LIBS})
endif()
