# Tests that need rooms which the room under test may not include.
if(TARGET test_task AND TARGET tcc_interp)
  target_link_libraries(test_task PRIVATE tcc_interp)
endif()

# Passes between Nest and Lowered for GPUs, run by the interpreter.
if(TARGET test_lower AND TARGET tcc_interp)
  target_link_libraries(test_lower PRIVATE tcc_interp)
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
add_library(constructor MODULE package/constructor.c)
foreach(name test_package test_cli)
  if(TARGET ${name})
    add_dependencies(${name} constructor)
    target_compile_definitions(${name} PRIVATE TCC_CONSTRUCTOR_LIBRARY="$<TARGET_FILE:constructor>")
  endif()
endforeach()

# Design spaces of real tasks, run under the interpreter.
if(TARGET test_space AND TARGET tcc_interp AND TARGET tcc_task)
  target_link_libraries(test_space PRIVATE tcc_interp tcc_task tcc_codegen)
endif()
# Constructed programs of the design spaces of real tasks, run under the interpreter.
if(TARGET test_construct AND TARGET tcc_interp AND TARGET tcc_task)
  target_link_libraries(test_construct PRIVATE tcc_space tcc_interp tcc_task)
endif()
# Programs of other shapes, run under the interpreter.
if(TARGET test_search AND TARGET tcc_interp)
  target_link_libraries(test_search PRIVATE tcc_interp)
endif()
if(TARGET test_features AND TARGET tcc_space AND TARGET tcc_task)
  target_link_libraries(test_features PRIVATE tcc_space tcc_task)
endif()

# The device kernels of tools/gpu printed, compiled and interpreted; default schedules compiled.
if(TARGET tcc_gpu_kernels AND TARGET tcc_search)
  tcc_test(cuda LIBS tcc_gpu_kernels tcc_codegen_cuda tcc_runtime_cuda tcc_interp tcc_search tcc_task)
endif()
# CUDA without a device: its PTX interpreted, and its source compiled by the host's compiler and run by fibers.
if(TARGET tcc_emulation AND TARGET tcc_gpu_kernels AND TARGET tcc_search)
  tcc_test(emulation LABEL emulation LIBS tcc_emulation tcc_gpu_kernels tcc_codegen_cuda tcc_search tcc_interp tcc_task
                                          ${CMAKE_DL_LIBS})
  target_compile_definitions(test_emulation PRIVATE TCC_HOST_COMPILER="${CMAKE_CXX_COMPILER}")
endif()
if(TARGET tcc-gpu-check AND TCC_NVRTC_INCLUDE)
  # Every step, in two parts.
  add_test(NAME gpu_check_dry_run COMMAND tcc-gpu-check --dry-run --to gemm --out ${CMAKE_CURRENT_BINARY_DIR}/gpu_check_dry_run.json)
  add_test(NAME gpu_check_dry_run_operators COMMAND tcc-gpu-check --dry-run --from products
                                                    --out ${CMAKE_CURRENT_BINARY_DIR}/gpu_check_dry_run_operators.json)
  add_test(NAME gpu_check_needs_a_gpu COMMAND ${CMAKE_COMMAND} -E env CUDA_VISIBLE_DEVICES= $<TARGET_FILE:tcc-gpu-check>
                                              --out ${CMAKE_CURRENT_BINARY_DIR}/gpu_check_none.json)
  set_tests_properties(gpu_check_needs_a_gpu PROPERTIES PASS_REGULAR_EXPRESSION "no gpu test ran")
  set_tests_properties(gpu_check_dry_run gpu_check_dry_run_operators gpu_check_needs_a_gpu PROPERTIES LABELS cli)
endif()

# Random traces as machine code.
if(TARGET tcc_codegen AND TARGET tcc_lower AND TARGET tcc_schedule AND TARGET tcc_interp AND TARGET tcc_task)
  tcc_test(cpu_traces LABEL traces LIBS tcc_schedule tcc_lower tcc_codegen tcc_interp tcc_task)
endif()

# Programs of the GPU spaces under the interpreter, and as CUDA through NVRTC.
if(TARGET tcc_codegen_cuda AND TARGET tcc_space AND TARGET tcc_interp AND TARGET tcc_task)
  tcc_test(gpu_traces LABEL traces LIBS tcc_space tcc_codegen_cuda tcc_interp tcc_task)
endif()

# Programs of the GPU spaces on the simulated GPU.
if(TARGET tcc_simulation AND TARGET tcc_space AND TARGET tcc_cost AND TARGET tcc_task)
  tcc_test(simulation LIBS tcc_simulation tcc_space tcc_cost tcc_task)
endif()

# NVRTC's PTX of programs of the GPU spaces, run without a GPU.
if(TARGET test_emulation AND TARGET tcc_space AND TARGET tcc_task)
  target_link_libraries(test_emulation PRIVATE tcc_space tcc_codegen_cuda tcc_lower tcc_schedule tcc_interp tcc_task)
endif()

# The code of stored traces.
if(TARGET tcc_codegen AND TARGET tcc_codegen_cuda AND TARGET tcc_space AND TARGET tcc_task)
  tcc_test(replay LABEL replay LIBS tcc_space tcc_codegen tcc_codegen_cuda tcc_task tcc_record SQLite::SQLite3 nlohmann_json::nlohmann_json)
endif()

# The command line's tests run the binary.
if(TARGET test_cli AND TARGET tcc)
  add_dependencies(test_cli tcc)
  if(TARGET tcc-opt)
    add_dependencies(test_cli tcc-opt)  # of the tutorial
  endif()
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

# A fake CUDA driver, for tests of code that runs on GPUs.
file(GLOB tcc_fake_cuda_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/rt/fake_cuda*.c)
add_library(tcc_fake_cuda SHARED ${tcc_fake_cuda_sources})
foreach(name test_rt test_package test_cli)
  if(TARGET ${name})
    add_dependencies(${name} tcc_fake_cuda)
    target_compile_definitions(${name} PRIVATE TCC_FAKE_CUDA="$<TARGET_FILE:tcc_fake_cuda>")
  endif()
endforeach()

# The same, with a machine that runs the kernels: found as the system's driver where LD_LIBRARY_PATH names its folder.
# Without a soname: libraries that look for the system's driver, such as cuBLAS, must not take this one for it because it
# is open already.
if(TARGET tcc_emulation)
  add_library(tcc_fake_gpu SHARED ${tcc_fake_cuda_sources} ${CMAKE_CURRENT_SOURCE_DIR}/fake_gpu/fake_gpu.cpp)
  target_include_directories(tcc_fake_gpu PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  target_link_libraries(tcc_fake_gpu PRIVATE tcc_emulation ${CMAKE_DL_LIBS})
  set_target_properties(tcc_fake_gpu PROPERTIES PREFIX "" OUTPUT_NAME libcuda SUFFIX .so.1 NO_SONAME ON
                                                LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/fake_gpu)
  # What gpu_check does on a device, at small sizes.
  if(TARGET tcc-gpu-check AND TCC_NVRTC_INCLUDE)
    add_test(NAME gpu_check_on_the_fake_gpu COMMAND tcc-gpu-check --driver $<TARGET_FILE:tcc_fake_gpu> --to conformance
                                                    --out ${CMAKE_CURRENT_BINARY_DIR}/gpu_check_fake.json)
    set_tests_properties(gpu_check_on_the_fake_gpu PROPERTIES LABELS cli)
    add_test(NAME gpu_check_on_the_fake_hopper COMMAND tcc-gpu-check --driver $<TARGET_FILE:tcc_fake_gpu>
                                                       --out ${CMAKE_CURRENT_BINARY_DIR}/gpu_check_hopper.json)
    set_tests_properties(gpu_check_on_the_fake_hopper PROPERTIES LABELS cli ENVIRONMENT FAKE_CUDA=arch=90)
    add_test(NAME gpu_check_survives_faults
             COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_SOURCE_DIR}/tools/gpu_check_test.py $<TARGET_FILE:tcc-gpu-check>
                     $<TARGET_FILE:tcc_fake_gpu> ${CMAKE_CURRENT_BINARY_DIR})
    add_test(NAME gpu_check_calls
             COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_SOURCE_DIR}/tools/gpu_calls_test.py ${CMAKE_BINARY_DIR}/tools
                     $<TARGET_FILE:tcc_fake_gpu> ${CMAKE_CURRENT_BINARY_DIR})
    set_tests_properties(gpu_check_survives_faults gpu_check_calls PROPERTIES LABELS cli)
  endif()
  foreach(name test_measure test_cli)
    if(TARGET ${name})
      add_dependencies(${name} tcc_fake_gpu)
      target_compile_definitions(${name} PRIVATE TCC_FAKE_GPU="$<TARGET_FILE:tcc_fake_gpu>")
    endif()
  endforeach()
endif()

# Measuring on that driver, with kernels that do what the tests want of them.
if(TARGET test_measure)
  add_library(tcc_fake_gpu_kernels SHARED ${CMAKE_CURRENT_SOURCE_DIR}/measure/gpu_kernels.c)
  add_dependencies(test_measure tcc_fake_cuda tcc_fake_gpu_kernels)
  target_compile_definitions(test_measure PRIVATE TCC_FAKE_CUDA="$<TARGET_FILE:tcc_fake_cuda>"
                                                  TCC_FAKE_GPU_KERNELS="$<TARGET_FILE:tcc_fake_gpu_kernels>")
endif()

# A device in this process, NVML and CUPTI.
if(TARGET test_runtime)
  add_library(tcc_fake_nvml SHARED ${CMAKE_CURRENT_SOURCE_DIR}/runtime/fake_nvml.c)
  add_library(tcc_fake_cupti SHARED ${CMAKE_CURRENT_SOURCE_DIR}/runtime/fake_cupti.c)
  target_include_directories(tcc_fake_cupti PRIVATE ${CMAKE_CURRENT_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/src)
  target_link_libraries(tcc_fake_cupti PRIVATE ${CMAKE_DL_LIBS})
  target_compile_definitions(tcc_fake_cupti PRIVATE TCC_FAKE_CUDA="$<TARGET_FILE:tcc_fake_cuda>")
  foreach(name test_measure test_cli)
    if(TARGET ${name})
      add_dependencies(${name} tcc_fake_cupti)
      target_compile_definitions(${name} PRIVATE TCC_FAKE_CUPTI="$<TARGET_FILE:tcc_fake_cupti>")
    endif()
  endforeach()
  add_dependencies(test_runtime tcc_fake_cuda tcc_fake_nvml tcc_fake_cupti)
  target_compile_definitions(test_runtime PRIVATE TCC_FAKE_CUDA="$<TARGET_FILE:tcc_fake_cuda>"
                                                  TCC_FAKE_CUPTI="$<TARGET_FILE:tcc_fake_cupti>"
                                                  TCC_FAKE_NVML="$<TARGET_FILE:tcc_fake_nvml>")
endif()

# All cases that need a device, of whatever room, in one program that is carried to GPU machines.
file(GLOB_RECURSE tcc_test_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
set(tcc_gpu_test_sources)
foreach(source ${tcc_test_sources})
  file(STRINGS ${source} gpu_cases REGEX "TEST_CASE.*\\[gpu\\]")
  if(gpu_cases)
    list(APPEND tcc_gpu_test_sources ${source})
  endif()
endforeach()
if(TARGET tcc_driver AND TARGET tcc_gpu_kernels AND tcc_gpu_test_sources)
  add_executable(tcc-gpu-tests ${tcc_gpu_test_sources})
  target_link_libraries(tcc-gpu-tests PRIVATE tcc_test_main tcc_gpu_kernels tcc_driver tcc_interp nlohmann_json::nlohmann_json ${CMAKE_DL_LIBS})
  target_include_directories(tcc-gpu-tests PRIVATE ${CMAKE_SOURCE_DIR}/src)
  target_compile_definitions(tcc-gpu-tests PRIVATE TCC_SOURCE_DIR="${CMAKE_SOURCE_DIR}" TCC_BINARY_DIR="${CMAKE_BINARY_DIR}"
                                                   TCC_FAKE_CUDA="$<TARGET_FILE:tcc_fake_cuda>")
endif()

# What portable programs may ask of a machine, by a script that must also be able to say no.
add_test(NAME check_portable_says_yes COMMAND ${CMAKE_SOURCE_DIR}/tools/check_portable --glibc 99 --any-library $<TARGET_FILE:tcc_fake_cuda>)
add_test(NAME check_portable_says_no COMMAND ${CMAKE_SOURCE_DIR}/tools/check_portable --glibc 2.2 --any-library $<TARGET_FILE:tcc_fake_cuda>)
set_tests_properties(check_portable_says_no PROPERTIES PASS_REGULAR_EXPRESSION "needs GLIBC_2")
add_test(NAME check_portable_knows_libraries COMMAND ${CMAKE_SOURCE_DIR}/tools/check_portable --glibc 99 $<TARGET_FILE:test_rt>)
if(NOT TCC_PORTABLE)
  set_tests_properties(check_portable_knows_libraries PROPERTIES PASS_REGULAR_EXPRESSION "needs libstdc")
endif()
add_test(NAME check_portable_knows_sizes COMMAND ${CMAKE_SOURCE_DIR}/tools/check_portable --glibc 99 --any-library --most 1
                                                 $<TARGET_FILE:test_rt> $<TARGET_FILE:test_rt> $<TARGET_FILE:test_rt>)
set_tests_properties(check_portable_knows_sizes PROPERTIES PASS_REGULAR_EXPRESSION "bytes together, more than 1 MiB")
set_tests_properties(check_portable_says_yes check_portable_says_no check_portable_knows_libraries check_portable_knows_sizes
                     PROPERTIES LABELS cli)
if(TCC_PORTABLE)
  add_test(NAME check_portable COMMAND ${CMAKE_SOURCE_DIR}/tools/check_portable $<TARGET_FILE:tcc> $<TARGET_FILE:tcc-worker>
                                       $<TARGET_FILE:tcc-gpu-check> $<TARGET_FILE:tcc-gpu-tests>)
  add_test(NAME gpu_bundle COMMAND ${CMAKE_SOURCE_DIR}/tools/gpu_bundle --build ${CMAKE_BINARY_DIR} -o ${CMAKE_CURRENT_BINARY_DIR}/bundle)
  set_tests_properties(check_portable gpu_bundle PROPERTIES LABELS cli)
endif()
if(TCC_PORTABLE AND TCC_WITH_LLVM AND TARGET tcc)
  # Its LLVM is in the program: CPUs are measured, and so are references.
  add_test(NAME portable_has_llvm COMMAND tcc tune zoo:mlp --target host --trials 4 --db ${CMAKE_CURRENT_BINARY_DIR}/portable.db)
  set_tests_properties(portable_has_llvm PROPERTIES LABELS cli)
endif()
if(TARGET tcc AND NOT TCC_WITH_LLVM)
  # Without LLVM references are interpreted, and CPUs are refused before anything is measured.
  add_test(NAME no_llvm_refuses_cpus COMMAND tcc tune zoo:mlp --target host --db ${CMAKE_CURRENT_BINARY_DIR}/refused.db)
  set_tests_properties(no_llvm_refuses_cpus PROPERTIES PASS_REGULAR_EXPRESSION "cannot tune for .host.: this tcc was built without LLVM")
  add_test(NAME no_llvm_emulates COMMAND tcc verify zoo:mlp --target a100 --emulate)
  set_tests_properties(no_llvm_refuses_cpus no_llvm_emulates PROPERTIES LABELS cli)
endif()
add_test(NAME gpu_bundle_says_what_is_missing COMMAND ${CMAKE_SOURCE_DIR}/tools/gpu_bundle --build ${CMAKE_CURRENT_BINARY_DIR}/nowhere
                                                      -o ${CMAKE_CURRENT_BINARY_DIR}/no_bundle)
set_tests_properties(gpu_bundle_says_what_is_missing PROPERTIES PASS_REGULAR_EXPRESSION "nowhere/tools/tcc is not built" LABELS cli)

# Tasks without a model.
foreach(room construct cpu_traces cuda data driver emulation features gpu_traces measure replay robustness schedule search simulation space task
             traces)
  if(TARGET test_${room} AND TARGET tcc_sample_tasks)
    target_link_libraries(test_${room} PRIVATE tcc_sample_tasks)
  endif()
endforeach()

# A backend of the test's own, through the whole way.
if(TARGET test_backend AND TARGET tcc_driver)
  target_link_libraries(test_backend PRIVATE tcc_driver tcc_interp)
endif()

# The arithmetic of one level of x86-64 must not replace another's.
function(tcc_level_symbols room prefix symbol)
  if(TARGET tcc_${room})
    add_test(NAME ${room}_symbols COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_SOURCE_DIR}/level_symbols.py
                                          $<TARGET_FILE:tcc_${room}> ${prefix} ${symbol})
    set_tests_properties(${room}_symbols PROPERTIES LABELS unit)
  endif()
endfunction()
tcc_level_symbols(nn kernels_ "tcc::nn::{}::table_")
tcc_level_symbols(analysis level_ "tcc::analysis::{}::kRun")
