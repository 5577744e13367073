# Included by CMakeLists.txt beside it: requests of the HTTP API.
if(TARGET tunefarm_web)
  tunefarm_test(web_fuzz LABEL unit LONG
    SOURCES file_fuzz_test.cc web_fuzz.cc fuzz_run.cc
    DEPS tunefarm::web tunefarm::sanitizers ZLIB::ZLIB
    TIMEOUT 5400)
  target_compile_definitions(web_fuzz_test PRIVATE FUZZ_FOLDER="web")
endif()
