# The message definitions are compiled with protobuf's lite runtime; nothing outside the room sees them.
if(TARGET tcc_onnx)
  set(onnx_generated ${CMAKE_BINARY_DIR}/generated/onnx)
  file(MAKE_DIRECTORY ${onnx_generated})
  add_custom_command(
    OUTPUT ${onnx_generated}/tcc_onnx.pb.cc ${onnx_generated}/tcc_onnx.pb.h
    COMMAND protobuf::protoc --cpp_out=${onnx_generated} --proto_path=${CMAKE_SOURCE_DIR}/src/onnx tcc_onnx.proto
    DEPENDS ${CMAKE_SOURCE_DIR}/src/onnx/tcc_onnx.proto)
  target_sources(tcc_onnx PRIVATE ${onnx_generated}/tcc_onnx.pb.cc ${onnx_generated}/tcc_onnx.pb.h)
  target_include_directories(tcc_onnx SYSTEM PRIVATE ${onnx_generated})
  target_link_libraries(tcc_onnx PRIVATE protobuf::libprotobuf-lite)
  set_source_files_properties(${onnx_generated}/tcc_onnx.pb.cc PROPERTIES COMPILE_OPTIONS "-w" SKIP_PRECOMPILE_HEADERS ON)
endif()
