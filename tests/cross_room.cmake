# Tests that need rooms which the room under test may not include.
if(TARGET test_task AND TARGET tcc_interp)
  target_link_libraries(test_task PRIVATE tcc_interp)
endif()

# Random traces against the interpreter: schedule, lower and space together.
if(TARGET tcc_space AND TARGET tcc_interp AND TARGET tcc_task)
  tcc_test(traces LABEL traces LIBS tcc_space tcc_interp tcc_task)
endif()

# The passes between Nest and Lowered, run as machine code.
if(TARGET test_codegen AND TARGET tcc_lower)
  target_link_libraries(test_codegen PRIVATE tcc_lower)
endif()
if(TARGET test_package AND TARGET tcc_lower)
  target_link_libraries(test_package PRIVATE tcc_lower nlohmann_json::nlohmann_json)
endif()

# Design spaces of real tasks, run under the interpreter.
if(TARGET test_space AND TARGET tcc_interp AND TARGET tcc_task)
  target_link_libraries(test_space PRIVATE tcc_interp tcc_task)
endif()
if(TARGET test_features AND TARGET tcc_space AND TARGET tcc_task)
  target_link_libraries(test_features PRIVATE tcc_space tcc_task)
endif()
