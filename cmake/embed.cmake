# tcc_embed(<target> <name> <file>): the file becomes part of the target, between the symbols <name>_begin and <name>_end.
function(tcc_embed target name file)
  set(TCC_EMBED_NAME ${name})
  set(TCC_EMBED_FILE ${file})
  set(assembly ${CMAKE_BINARY_DIR}/embedded/${name}.S)
  configure_file(${CMAKE_SOURCE_DIR}/src/support/embed.S.in ${assembly} @ONLY)
  set_source_files_properties(${assembly} PROPERTIES OBJECT_DEPENDS "${file}")
  target_sources(${target} PRIVATE ${assembly})
endfunction()
