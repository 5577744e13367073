# One INTERFACE target carries the warnings and the sanitizers; every target of ours links it PRIVATE, nothing global.
add_library(tunefarm_warnings INTERFACE)
target_compile_options(tunefarm_warnings INTERFACE
  -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Wimplicit-fallthrough -Wunused-result
  $<$<BOOL:${TUNEFARM_WERROR}>:-Werror>
  # g++ 12 with optimisation sees overlaps in std::string operations (GCC bug 105651) and uninitialized std::optional
  # values (bug 80635) where there are none.
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict -Wno-maybe-uninitialized>
  $<$<CXX_COMPILER_ID:Clang>:-Wthread-safety>)
if(TUNEFARM_SANITIZE STREQUAL "thread")
  # Where it is defined, protobuf's map fields begin with two members more than in Debian's library. The standard library
  # is told apart: without it the end of a shared_ptr takes a short cut that looks like a race.
  add_compile_options(-U__SANITIZE_THREAD__ -D_GLIBCXX_TSAN=1)
endif()
# Which ones there are, for the few files that must know: "server/sanitizers.h".
foreach(kind address thread)
  string(TOUPPER TUNEFARM_${kind}_SANITIZER name)
  set(${name} OFF)
  if(TUNEFARM_SANITIZE MATCHES ${kind})
    set(${name} ON)
  endif()
endforeach()
configure_file(${PROJECT_SOURCE_DIR}/server/cmake/sanitizers.h.in ${PROJECT_BINARY_DIR}/generated/server/sanitizers.h)
add_library(tunefarm_sanitizers INTERFACE)
add_library(tunefarm::sanitizers ALIAS tunefarm_sanitizers)
target_include_directories(tunefarm_sanitizers INTERFACE ${PROJECT_BINARY_DIR}/generated)
if(TUNEFARM_SANITIZE)
  # -O1: the sanitizer lanes must fit their time budget, and -O0 does not.
  target_compile_options(tunefarm_warnings INTERFACE -fsanitize=${TUNEFARM_SANITIZE} -fno-omit-frame-pointer -O1)
  target_link_options(tunefarm_warnings INTERFACE -fsanitize=${TUNEFARM_SANITIZE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # g++ 12 reports these falsely once the sanitizers have rewritten the code.
    target_compile_options(tunefarm_warnings INTERFACE -Wno-stringop-overflow)
  endif()
endif()
