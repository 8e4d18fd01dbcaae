# Tests that need rooms which the room under test may not include.
if(TARGET test_task AND TARGET tcc_interp)
  target_link_libraries(test_task PRIVATE tcc_interp)
endif()
