# The one table of rooms: name, level, and the rooms whose headers it may include.
# tools/check_includes.py reads this table and compares it with the sources, so keep one tcc_room() call per room.
# A room's sources are src/<room>/**; its public headers are include/tcc/<room>/*.h.

# tcc_room(<name> LEVEL <n> ROOMS <room>... [LIBS <third-party>...])
function(tcc_room name)
  cmake_parse_arguments(ROOM "" "LEVEL" "ROOMS;LIBS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${name}/*.cpp ${CMAKE_SOURCE_DIR}/src/${name}/*.c)
  if(NOT sources)
    return()
  endif()
  add_library(tcc_${name} STATIC ${sources})
  target_include_directories(tcc_${name} PUBLIC ${CMAKE_SOURCE_DIR}/include PRIVATE ${CMAKE_SOURCE_DIR}/src)
  foreach(room ${ROOM_ROOMS})
    if(TARGET tcc_${room})
      target_link_libraries(tcc_${name} PUBLIC tcc_${room})
    endif()
  endforeach()
  target_link_libraries(tcc_${name} PUBLIC ${TCC_FMT} tl::expected PRIVATE ${ROOM_LIBS})
  if(NOT name STREQUAL rt)  # which is C
    tcc_precompile(tcc_${name} rooms)
  endif()
endfunction()

tcc_room(support LEVEL 0 ROOMS LIBS Threads::Threads ${CMAKE_DL_LIBS} ${TCC_SPDLOG})
tcc_room(rt LEVEL 0 ROOMS LIBS Threads::Threads ${CMAKE_DL_LIBS} m)

tcc_room(target LEVEL 1 ROOMS support rt LIBS nlohmann_json::nlohmann_json)
tcc_room(nn LEVEL 1 ROOMS support rt LIBS nlohmann_json::nlohmann_json)

tcc_room(ir LEVEL 2 ROOMS support)
tcc_room(graph LEVEL 2 ROOMS support)

tcc_room(onnx LEVEL 3 ROOMS support graph)
tcc_room(analysis LEVEL 3 ROOMS support rt ir)
tcc_room(interp LEVEL 3 ROOMS support ir)

tcc_room(task LEVEL 4 ROOMS support graph ir)
tcc_room(schedule LEVEL 4 ROOMS support ir analysis LIBS nlohmann_json::nlohmann_json)
tcc_room(simulation LEVEL 4 ROOMS support ir analysis target)
tcc_room(lower LEVEL 4 ROOMS support ir analysis target)

tcc_room(codegen LEVEL 5 ROOMS support ir analysis target)
tcc_room(record LEVEL 5 ROOMS support schedule LIBS SQLite::SQLite3 nlohmann_json::nlohmann_json ${TCC_STATIC_LIBS})
tcc_room(features LEVEL 5 ROOMS support ir task schedule target)
tcc_room(space LEVEL 5 ROOMS support ir analysis schedule lower target)

tcc_room(data LEVEL 6 ROOMS support ir target task schedule record LIBS nlohmann_json::nlohmann_json)
tcc_room(runtime LEVEL 6 ROOMS support target codegen rt)
tcc_room(emulation LEVEL 6 ROOMS support ir codegen interp)
tcc_room(construct LEVEL 5 ROOMS support ir analysis schedule target)
tcc_room(cost LEVEL 6 ROOMS support ir analysis target features nn LIBS Eigen3::Eigen)

tcc_room(package LEVEL 7 ROOMS support ir graph task codegen target rt LIBS nlohmann_json::nlohmann_json)
tcc_room(measure LEVEL 7 ROOMS support rt ir target interp schedule lower simulation codegen runtime record)

tcc_room(backend LEVEL 8 ROOMS support target schedule features lower space codegen cost measure package)

tcc_room(fleet LEVEL 9 ROOMS support ir target schedule lower record measure LIBS Threads::Threads nlohmann_json::nlohmann_json)

tcc_room(search LEVEL 9 ROOMS support ir target task schedule lower codegen space construct cost record measure backend LIBS nlohmann_json::nlohmann_json)

tcc_room(driver LEVEL 10 ROOMS support rt target ir analysis interp graph onnx task schedule codegen record data nn features cost runtime emulation measure search fleet package lower space backend LIBS nlohmann_json::nlohmann_json)

tcc_room(cli LEVEL 11 ROOMS support backend fleet driver LIBS CLI11::CLI11 nlohmann_json::nlohmann_json ${TCC_SPDLOG})

# --- room-specific build details -------------------------------------------------------------------------------
include(embed)
include(rooms/onnx OPTIONAL)
include(rooms/analysis OPTIONAL)
include(rooms/codegen OPTIONAL)
include(rooms/rt OPTIONAL)
include(rooms/nn OPTIONAL)
include(rooms/package OPTIONAL)
include(rooms/cost OPTIONAL)
include(rooms/data OPTIONAL)
include(rooms/runtime OPTIONAL)
include(rooms/codegen_cuda OPTIONAL)
include(rooms/measure OPTIONAL)
include(rooms/driver OPTIONAL)
include(rooms/fleet OPTIONAL)
include(rooms/cli OPTIONAL)
