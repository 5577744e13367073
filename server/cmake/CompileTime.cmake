# What makes a build on two cores take minutes less.

# g++ collects its garbage at every 30 % of growth above this heap (kB); files of ours take up to half a gigabyte.
add_compile_options($<$<COMPILE_LANG_AND_ID:CXX,GNU>:--param=ggc-min-heapsize=400000>)
# As gRPC's users are: g++ takes a precompiled header only where the flags are the same.
add_compile_options(-pthread)

# Two thirds of a build's time went into parsing the same headers again for every file. Precompiled are those of the standard
# library, Abseil and {fmt} (target tunefarm_headers), with the messages (tunefarm_message_headers), with gRPC and CLI11
# (tunefarm_client_headers) and with GoogleTest (tunefarm_test_headers).
# A file must still include what it uses: the presets dev and clang build without precompiled headers.
option(TUNEFARM_PRECOMPILED_HEADERS "Parse the headers that nearly every file needs only once." ON)

# tunefarm_precompile(NAME [OPTIONS ...] [DEPS ...] [HEADERS ...])
#   Target NAME parses the usual headers and HEADERS. Its flags must be those of the targets that reuse it, and its
#   definitions among theirs.
function(tunefarm_precompile name)
  if(NOT TUNEFARM_PRECOMPILED_HEADERS)
    return()
  endif()
  cmake_parse_arguments(ARG "" "" "OPTIONS;DEPS;HEADERS" ${ARGN})
  set(source ${CMAKE_CURRENT_BINARY_DIR}/${name}.cc)
  file(CONFIGURE OUTPUT ${source} CONTENT "")
  add_library(${name} OBJECT ${source})
  target_link_libraries(${name} PRIVATE tunefarm_warnings absl::statusor fmt::fmt ${ARG_DEPS})
  target_compile_options(${name} PRIVATE ${ARG_OPTIONS} ${tunefarm_precompiled_options})
  target_precompile_headers(${name} PRIVATE
    <algorithm> <array> <atomic> <chrono> <cmath> <condition_variable> <cstdint> <cstring> <deque> <filesystem> <functional>
    <limits> <map> <memory> <mutex> <numeric> <optional> <set> <span> <string> <string_view> <thread> <tuple> <unordered_map>
    <unordered_set> <utility> <variant> <vector> <absl/status/statusor.h> <fmt/core.h> <fmt/format.h> ${ARG_HEADERS})
endfunction()

# tunefarm_reuse_headers(TARGET OWNER): TARGET takes what OWNER has parsed.
function(tunefarm_reuse_headers target owner)
  if(TUNEFARM_PRECOMPILED_HEADERS)
    target_precompile_headers(${target} REUSE_FROM ${owner})
    target_compile_options(${target} PRIVATE ${tunefarm_precompiled_options})
  endif()
endfunction()

# Lets compiler caches see through a precompiled header.
set(tunefarm_precompiled_options $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)
