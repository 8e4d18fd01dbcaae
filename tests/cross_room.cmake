# Tests that need rooms which the room under test may not include.
if(TARGET test_task AND TARGET tcc_interp)
  target_link_libraries(test_task PRIVATE tcc_interp)
endif()

# Random traces against the interpreter: schedule, lower and space together.
if(TARGET tcc_space AND TARGET tcc_interp AND TARGET tcc_task)
  tcc_test(traces LABEL traces LIBS tcc_space tcc_interp tcc_task)
endif()
