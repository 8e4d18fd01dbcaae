# Tests that need rooms which the room under test may not include.
if(TARGET test_task AND TARGET tcc_interp)
  target_link_libraries(test_task PRIVATE tcc_interp)
endif()

# Random traces against the interpreter: schedule, lower and space together.
if(TARGET tcc_space AND TARGET tcc_interp AND TARGET tcc_task)
  tcc_test(traces LABEL traces LIBS tcc_space tcc_interp tcc_task)
endif()

# The reference of a task against the interpreter.
if(TARGET test_measure AND TARGET tcc_interp AND TARGET tcc_task)
  target_link_libraries(test_measure PRIVATE tcc_interp tcc_task)
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
  target_link_libraries(test_space PRIVATE tcc_interp tcc_task tcc_codegen)
endif()
if(TARGET test_features AND TARGET tcc_space AND TARGET tcc_task)
  target_link_libraries(test_features PRIVATE tcc_space tcc_task)
endif()

# CUDA without LLVM: the device kernels of tools/gpu printed, compiled, interpreted and run as printed on the host.
if(TARGET tcc_gpu_kernels)
  tcc_test(cuda LIBS tcc_gpu_kernels tcc_codegen_cuda tcc_runtime_cuda tcc_interp ${CMAKE_DL_LIBS})
  target_compile_definitions(test_cuda PRIVATE TCC_HOST_COMPILER="${CMAKE_CXX_COMPILER}")
endif()
if(TARGET tcc-gpu-check AND TCC_NVRTC_INCLUDE)
  add_test(NAME gpu_check_dry_run COMMAND tcc-gpu-check --dry-run --out ${CMAKE_CURRENT_BINARY_DIR}/gpu_check_dry_run.json)
  add_test(NAME gpu_check_needs_a_gpu COMMAND ${CMAKE_COMMAND} -E env CUDA_VISIBLE_DEVICES= $<TARGET_FILE:tcc-gpu-check>
                                              --out ${CMAKE_CURRENT_BINARY_DIR}/gpu_check_none.json)
  set_tests_properties(gpu_check_needs_a_gpu PROPERTIES PASS_REGULAR_EXPRESSION "no gpu test ran")
  set_tests_properties(gpu_check_dry_run gpu_check_needs_a_gpu PROPERTIES LABELS cli)
endif()

# Random traces as machine code.
if(TARGET tcc_codegen AND TARGET tcc_lower AND TARGET tcc_schedule AND TARGET tcc_interp AND TARGET tcc_task)
  tcc_test(cpu_traces LABEL traces LIBS tcc_schedule tcc_lower tcc_codegen tcc_interp tcc_task)
endif()

# Programs of the GPU spaces under the interpreter, and as CUDA through NVRTC.
if(TARGET tcc_codegen_cuda AND TARGET tcc_space AND TARGET tcc_interp AND TARGET tcc_task)
  tcc_test(gpu_traces LABEL traces LIBS tcc_space tcc_codegen_cuda tcc_interp tcc_task)
endif()

# The command line's tests run the binary.
if(TARGET test_cli AND TARGET tcc)
  add_dependencies(test_cli tcc)
  target_link_libraries(test_cli PRIVATE nlohmann_json::nlohmann_json)
  target_compile_definitions(test_cli PRIVATE TCC_C_COMPILER="${CMAKE_C_COMPILER}" TCC_LLVM_TOOLS="${LLVM_TOOLS_BINARY_DIR}")
endif()

# Examples of the primitives run under the interpreter; fuzzed kernels and traces are those of real tasks.
if(TARGET test_schedule AND TARGET tcc_interp AND TARGET tcc_task)
  target_link_libraries(test_schedule PRIVATE tcc_interp tcc_task)
endif()

# The tcc-opt binary as a user runs it.
if(TARGET tcc-opt)
  tcc_test(opt LABEL cli LIBS tcc_lower)
  if(TARGET test_opt)
    add_dependencies(test_opt tcc-opt)
    target_compile_definitions(test_opt PRIVATE TCC_OPT="$<TARGET_FILE:tcc-opt>")
  endif()
endif()

# Bad environments, bad files, killed runs: the binaries as users run them, and searches on machines that cheat.
if(TARGET tcc AND TARGET tcc-worker)
  tcc_test(robustness LABEL errors LIBS tcc_search tcc_measure tcc_record nlohmann_json::nlohmann_json)
  if(TARGET test_robustness)
    add_dependencies(test_robustness tcc tcc-worker)
  endif()
endif()

# ONNX's own test cases, compiled and run; the second entry runs some with the schedules of an untuned build.
if(TARGET tcc-onnx-backend)
  foreach(schedule plain default)
    set(part $<IF:$<STREQUAL:${schedule},plain>,1,12>)
    add_test(NAME onnx_backend_${schedule}
             COMMAND tcc-onnx-backend --schedule ${schedule} --every ${part} --timeout 60
                     --expect ${CMAKE_CURRENT_SOURCE_DIR}/onnx_backend/expectations.txt
                     --json ${CMAKE_CURRENT_BINARY_DIR}/onnx_backend_${schedule}.json)
    set_tests_properties(onnx_backend_${schedule} PROPERTIES LABELS onnx)
  endforeach()
endif()
