# Included by CMakeLists.txt beside it when the fuzz targets are built.
tunefarm_executable(definition_fuzz SOURCES definition_fuzz.cc DEPS tunefarm::definition)
foreach(target tunefarm_device tunefarm_definition definition_fuzz)
  target_compile_definitions(${target} PRIVATE FMT_HEADER_ONLY)
endforeach()
target_compile_options(tunefarm_definition PRIVATE -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all)
target_compile_options(definition_fuzz PRIVATE -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all)
target_link_options(definition_fuzz PRIVATE -fsanitize=fuzzer,address,undefined)
