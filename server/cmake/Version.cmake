# The git revision stands in `version` and in every stored result, so that a number can be traced to its code.
find_package(Git QUIET)
set(TUNEFARM_REVISION "unknown")
if(GIT_FOUND)
  execute_process(COMMAND ${GIT_EXECUTABLE} describe --always --dirty --abbrev=12
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR} OUTPUT_VARIABLE revision OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(revision)
    set(TUNEFARM_REVISION ${revision})
  endif()
endif()
configure_file(${PROJECT_SOURCE_DIR}/server/cmake/version.h.in ${PROJECT_BINARY_DIR}/generated/server/version.h @ONLY)
add_library(tunefarm_version INTERFACE)
add_library(tunefarm::version ALIAS tunefarm_version)
target_include_directories(tunefarm_version INTERFACE ${PROJECT_BINARY_DIR}/generated)
