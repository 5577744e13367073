# tunefarm_embed(TARGET SYMBOL FILES ...)
#   Adds to TARGET a generated source that defines, in namespace tunefarm,
#     const EmbeddedFile kSYMBOL[] and const size_t kSYMBOLCount     (declared in server/base/embedded_file.h)
#   with one entry per file: its base name and its bytes.
function(tunefarm_embed target symbol)
  cmake_parse_arguments(ARG "" "" "FILES" ${ARGN})
  set(out ${CMAKE_CURRENT_BINARY_DIR}/${symbol}.embedded.cc)
  list(JOIN ARG_FILES "|" joined)
  add_custom_command(OUTPUT ${out}
    COMMAND ${CMAKE_COMMAND} -DOUT=${out} -DSYMBOL=${symbol} "-DFILES=${joined}"
            -P ${PROJECT_SOURCE_DIR}/server/cmake/EmbedFilesScript.cmake
    DEPENDS ${ARG_FILES} ${PROJECT_SOURCE_DIR}/server/cmake/EmbedFilesScript.cmake VERBATIM)
  target_sources(${target} PRIVATE ${out})
  # All of them use the same names.
  set_source_files_properties(${out} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()
