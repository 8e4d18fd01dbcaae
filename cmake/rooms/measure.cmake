# Tests that measure start the worker from the build folder; tests and tools are declared after the rooms.
function(tcc_tests_need_worker)
  foreach(name test_measure test_search test_driver test_cli)
    if(TARGET ${name} AND TARGET tcc-worker)
      add_dependencies(${name} tcc-worker)
    endif()
  endforeach()
endfunction()
cmake_language(DEFER DIRECTORY ${CMAKE_SOURCE_DIR} CALL tcc_tests_need_worker)
