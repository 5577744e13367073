# Included by CMakeLists.txt beside it: the reader of packages. Damaged files; with TUNEFARM_BUILD_FUZZ also libFuzzer's
# target.
tunefarm_test(package_fuzz LABEL unit LONG
  SOURCES package_fuzz_test.cc package_fuzz.cc fuzz_run.cc
  DEPS tunefarm::launch_core tunefarm::expression tunefarm::base tunefarm::sanitizers
  TIMEOUT 5400)
if(TUNEFARM_BUILD_FUZZ)
  tunefarm_executable(package_fuzz SOURCES package_fuzz.cc DEPS tunefarm::launch_core)
  target_compile_options(package_fuzz PRIVATE -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all)
  target_link_options(package_fuzz PRIVATE -fsanitize=fuzzer,address,undefined)
  target_compile_options(tunefarm_launch_core PRIVATE -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all)
endif()
