# tunefarm_proto(NAME PROTOS file.proto ... [GRPC] [DEPS ...])
#   Static library tunefarm_NAME with the generated C++ of the files, included as "tunefarm/v1/kernel.pb.h".
#   GRPC also generates the service stubs; only rpc/, the agent's remote link and client/ may link such a target.
function(tunefarm_proto name)
  cmake_parse_arguments(ARG "GRPC" "" "PROTOS;DEPS" ${ARGN})
  set(out ${PROJECT_BINARY_DIR}/proto)
  set(sources)
  foreach(proto IN LISTS ARG_PROTOS)
    string(REGEX REPLACE "\\.proto$" "" stem ${proto})
    set(generated ${out}/${stem}.pb.cc ${out}/${stem}.pb.h)
    set(flags --cpp_out=${out})
    if(ARG_GRPC)
      set(generated ${out}/${stem}.grpc.pb.cc ${out}/${stem}.grpc.pb.h)
      set(flags --grpc_out=${out} --plugin=protoc-gen-grpc=$<TARGET_FILE:gRPC::grpc_cpp_plugin>)
    endif()
    add_custom_command(OUTPUT ${generated}
      COMMAND ${CMAKE_COMMAND} -E make_directory ${out}
      COMMAND protobuf::protoc ${flags} -I ${PROJECT_SOURCE_DIR}/proto ${proto}
      DEPENDS ${PROJECT_SOURCE_DIR}/proto/${proto} VERBATIM)
    list(APPEND sources ${generated})
  endforeach()
  add_library(tunefarm_${name} STATIC ${sources})
  add_library(tunefarm::${name} ALIAS tunefarm_${name})
  target_include_directories(tunefarm_${name} SYSTEM PUBLIC ${out})
  target_link_libraries(tunefarm_${name} PUBLIC protobuf::libprotobuf ${ARG_DEPS})
  if(ARG_GRPC)
    target_link_libraries(tunefarm_${name} PUBLIC gRPC::grpc++)
  endif()
  target_compile_options(tunefarm_${name} PRIVATE $<$<CONFIG:Release>:-O1>)
  if(TUNEFARM_SANITIZE)
    # Containers cross this boundary: annotated and plain code in one program would report false overflows.
    target_compile_options(tunefarm_${name} PRIVATE -fsanitize=${TUNEFARM_SANITIZE} -O1)
  endif()
endfunction()
