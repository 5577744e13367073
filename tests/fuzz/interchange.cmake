# Included by CMakeLists.txt beside it: the readers of foreign files. Damaged files; with TUNEFARM_BUILD_FUZZ
# also libFuzzer's targets.
tunefarm_test(recorded_fuzz LABEL unit LONG
  SOURCES file_fuzz_test.cc recorded_fuzz.cc fuzz_run.cc
  DEPS tunefarm::interchange tunefarm::sanitizers ZLIB::ZLIB
  TIMEOUT 5400)
target_compile_definitions(recorded_fuzz_test PRIVATE FUZZ_FOLDER="t4")
if(TUNEFARM_BUILD_FUZZ)
  tunefarm_executable(recorded_fuzz SOURCES recorded_fuzz.cc DEPS tunefarm::interchange)
  target_compile_definitions(recorded_fuzz PRIVATE FMT_HEADER_ONLY)
  target_compile_options(recorded_fuzz PRIVATE -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all)
  target_link_options(recorded_fuzz PRIVATE -fsanitize=fuzzer,address,undefined)
  target_compile_definitions(tunefarm_interchange PRIVATE FMT_HEADER_ONLY)
  target_compile_options(tunefarm_interchange PRIVATE -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all)
endif()
