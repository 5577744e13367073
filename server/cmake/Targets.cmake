# tunefarm_library(NAME SOURCES ... [DEPS ...] [PRIVATE_DEPS ...] [COLD] [UNITY])
#   One static library per folder: target tunefarm_NAME, alias tunefarm::NAME. Headers are included from the project's
#   root ("server/base/mutex.h"). tests/tidy checks that an include never points up the layer table.
#   COLD: nothing in it is worth the time that -O2 takes over -O1. UNITY: as tunefarm_test; all that know messages are.
function(tunefarm_library name)
  cmake_parse_arguments(ARG "COLD;UNITY" "" "SOURCES;DEPS;PRIVATE_DEPS" ${ARGN})
  if(NOT ARG_SOURCES)
    add_library(tunefarm_${name} INTERFACE)
    add_library(tunefarm::${name} ALIAS tunefarm_${name})
    target_include_directories(tunefarm_${name} INTERFACE ${PROJECT_SOURCE_DIR})
    target_link_libraries(tunefarm_${name} INTERFACE ${ARG_DEPS})
    return()
  endif()
  add_library(tunefarm_${name} STATIC ${ARG_SOURCES})
  add_library(tunefarm::${name} ALIAS tunefarm_${name})
  target_include_directories(tunefarm_${name} PUBLIC ${PROJECT_SOURCE_DIR})
  target_link_libraries(tunefarm_${name} PUBLIC ${ARG_DEPS} PRIVATE tunefarm_warnings ${ARG_PRIVATE_DEPS})
  if("${ARG_DEPS}" MATCHES "tunefarm::(worker_|agent_)?proto")
    tunefarm_reuse_headers(tunefarm_${name} tunefarm_message_headers)
    # Instantiating the messages costs each file more than its own code: the files of a library are compiled in batches.
    set(ARG_UNITY TRUE)
  elseif(ARG_DEPS)
    # A library without dependencies lacks the options of those whose headers are precompiled.
    tunefarm_reuse_headers(tunefarm_${name} tunefarm_headers)
  endif()
  if(ARG_UNITY)
    set_target_properties(tunefarm_${name} PROPERTIES UNITY_BUILD ${TUNEFARM_PRECOMPILED_HEADERS} UNITY_BUILD_BATCH_SIZE 8)
  endif()
  if(ARG_COLD)
    target_compile_options(tunefarm_${name} PRIVATE $<$<CONFIG:Release>:-O1>)
  endif()
endfunction()

# tunefarm_executable(NAME SOURCES ... [DEPS ...])
function(tunefarm_executable name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE tunefarm_warnings ${ARG_DEPS})
endfunction()

# tunefarm_test(NAME LABEL unit|store|exec|e2e|fault|golden|tidy|gpu SOURCES ... [DEPS ...] [TIMEOUT seconds] [SERIAL] [LONG]
#               [OPTIMIZED] [UNITY])
#   One GoogleTest binary, registered as ONE ctest test (its cases are cheap; a process per case is not). LONG: not in
#   every `./dev test` (label long). OPTIMIZED: it computes more than it is built. UNITY: its files are compiled in
#   batches, since parsing what they include costs most of the time; names in their anonymous namespaces must differ.
function(tunefarm_test name)
  cmake_parse_arguments(ARG "SERIAL;LONG;OPTIMIZED;UNITY" "LABEL;TIMEOUT" "SOURCES;DEPS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    # Of a hang: no test judges how fast it is.
    set(ARG_TIMEOUT 1200)
  endif()
  tunefarm_executable(${name}_test SOURCES ${ARG_SOURCES} DEPS ${ARG_DEPS} GTest::gmock GTest::gtest_main)
  if(TUNEFARM_SANITIZE AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # g++ 12 sees std::string's short buffer overrun in the concatenations that tests are full of (GCC bug 105329).
    target_compile_options(${name}_test PRIVATE -Wno-array-bounds -Wno-stringop-overread)
  endif()
  if(ARG_OPTIMIZED)
    target_compile_options(${name}_test PRIVATE -O2)
  else()
    # Most tests are built far more often than run: what -O2 costs there it never gives back.
    target_compile_options(${name}_test PRIVATE $<$<CONFIG:Release>:-O0>)
    tunefarm_reuse_headers(${name}_test tunefarm_test_headers)
  endif()
  if(ARG_UNITY)
    set_target_properties(${name}_test PROPERTIES UNITY_BUILD ${TUNEFARM_PRECOMPILED_HEADERS} UNITY_BUILD_BATCH_SIZE 8)
  endif()
  add_test(NAME ${name} COMMAND ${name}_test)
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABEL}" TIMEOUT ${ARG_TIMEOUT} SKIP_RETURN_CODE 77
    ENVIRONMENT "TUNEFARM_BIN_DIR=${CMAKE_RUNTIME_OUTPUT_DIRECTORY};TUNEFARM_SOURCE_DIR=${PROJECT_SOURCE_DIR}")
  if(ARG_LABEL MATCHES "^(unit|store|exec)$")
    # What the sanitizer lanes build and run: no more than these tests need.
    if(NOT TARGET sanitized_tests)
      add_custom_target(sanitized_tests)
    endif()
    add_dependencies(sanitized_tests ${name}_test)
  endif()
  if(ARG_LONG)
    set_property(TEST ${name} APPEND PROPERTY LABELS long)
  endif()
  if(ARG_SERIAL)
    set_tests_properties(${name} PROPERTIES RUN_SERIAL ON)
  endif()
endfunction()
