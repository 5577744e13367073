# Included by CMakeLists.txt beside it: the readers of foreign files. Damaged files; with TUNEFARM_BUILD_FUZZ
# also libFuzzer's targets.
foreach(name t1 recorded)
  tunefarm_test(${name}_fuzz LABEL unit LONG
    SOURCES file_fuzz_test.cc ${name}_fuzz.cc fuzz_run.cc
    DEPS tunefarm::interchange tunefarm::sanitizers ZLIB::ZLIB
    TIMEOUT 5400)
endforeach()
target_compile_definitions(t1_fuzz_test PRIVATE FUZZ_FOLDER="t1")
target_compile_definitions(recorded_fuzz_test PRIVATE FUZZ_FOLDER="t4")
if(TUNEFARM_BUILD_FUZZ)
  foreach(name t1 recorded)
    tunefarm_executable(${name}_fuzz SOURCES ${name}_fuzz.cc DEPS tunefarm::interchange)
    target_compile_definitions(${name}_fuzz PRIVATE FMT_HEADER_ONLY)
    target_compile_options(${name}_fuzz PRIVATE -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all)
    target_link_options(${name}_fuzz PRIVATE -fsanitize=fuzzer,address,undefined)
  endforeach()
  target_compile_definitions(tunefarm_interchange PRIVATE FMT_HEADER_ONLY)
  target_compile_options(tunefarm_interchange PRIVATE -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all)
endif()
