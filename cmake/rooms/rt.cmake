# rt once more, as it ships inside emitted libraries: one relocatable object, and its bytes in the library target
# tcc_rt_blob (tcc/rt/blob.h). Compiled apart from tcc_rt so that no sanitizer, debug path or build type of the
# compiler reaches the user's library.
enable_language(ASM)

file(GLOB TCC_RT_SOURCES CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/rt/*.c)
add_library(tcc_rt_shipped OBJECT ${TCC_RT_SOURCES})
target_include_directories(tcc_rt_shipped PRIVATE ${CMAKE_SOURCE_DIR}/include ${CMAKE_SOURCE_DIR}/src)
set_target_properties(tcc_rt_shipped PROPERTIES C_VISIBILITY_PRESET hidden)
target_compile_options(tcc_rt_shipped PRIVATE -O2 -g0 -fPIC -fno-sanitize=all -ffunction-sections -fdata-sections
                                              -fno-ident -fno-lto)

set(TCC_RT_OBJECT ${CMAKE_BINARY_DIR}/rt.o)
set(TCC_RT_MODEL_ABI ${CMAKE_SOURCE_DIR}/include/tcc/rt/model_abi.h)
add_custom_command(
  OUTPUT ${TCC_RT_OBJECT}
  COMMAND ${CMAKE_LINKER} -r -o ${TCC_RT_OBJECT} $<TARGET_OBJECTS:tcc_rt_shipped>
  DEPENDS tcc_rt_shipped $<TARGET_OBJECTS:tcc_rt_shipped>
  COMMAND_EXPAND_LISTS VERBATIM)

configure_file(${CMAKE_SOURCE_DIR}/src/rt/blob.S.in ${CMAKE_BINARY_DIR}/rt_blob.S @ONLY)
set_source_files_properties(${CMAKE_BINARY_DIR}/rt_blob.S PROPERTIES OBJECT_DEPENDS "${TCC_RT_OBJECT};${TCC_RT_MODEL_ABI}")
add_library(tcc_rt_blob STATIC ${CMAKE_BINARY_DIR}/rt_blob.S)
target_include_directories(tcc_rt_blob PUBLIC ${CMAKE_SOURCE_DIR}/include)

# Static-library users of rt: package embeds the object, the room's tests link it as a user would.
target_link_libraries(tcc_rt INTERFACE tcc_rt_blob)
