# Installs the client alone, builds the consumer against it, and runs it.
file(REMOVE_RECURSE ${WORK})
file(MAKE_DIRECTORY ${WORK})

function(run what)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE code OUTPUT_VARIABLE out ERROR_VARIABLE out)
  if(NOT code EQUAL 0)
    message(FATAL_ERROR "${what} failed:\n${out}")
  endif()
  set(output "${out}" PARENT_SCOPE)
endfunction()

run("installing" ${CMAKE_COMMAND} --install ${BUILD} --component client --prefix ${WORK}/prefix)
run("configuring" ${CMAKE_COMMAND} -S ${CONSUMER} -B ${WORK}/build -G ${GENERATOR} -DCMAKE_CXX_COMPILER=${CXX}
  -DCMAKE_PREFIX_PATH=${WORK}/prefix)
run("building" ${CMAKE_COMMAND} --build ${WORK}/build)
run("writing a snapshot" ${WRITE_SNAPSHOT} ${WORK}/matmul.tfsnap)
run("the consumer" ${WORK}/build/consumer ${WORK}/matmul.tfsnap unix:${WORK}/nobody.sock)
message("${output}")

# It exports what its headers declare, and nothing of what it is made of.
file(GLOB library ${WORK}/prefix/lib*/libtunefarm-client.so ${WORK}/prefix/lib*/*/libtunefarm-client.so)
run("nm" ${NM} -DC --defined-only ${library})
string(REPLACE "\n" ";" symbols "${output}")
set(exported 0)
foreach(symbol IN LISTS symbols)
  if(symbol STREQUAL "" OR symbol MATCHES " A TUNEFARM_CLIENT_0")
    continue()
  endif()
  if(NOT symbol MATCHES " T tunefarm::client::(Client|Question|Reader|JobWatch|Status|Value|Config)::" AND
     NOT symbol MATCHES " T tunefarm::client::(Code|Match|JobState)Name\\(" OR symbol MATCHES "::Impl::")
    message(FATAL_ERROR "the library exports what is none of its users' business: ${symbol}")
  endif()
  math(EXPR exported "${exported} + 1")
endforeach()
if(exported LESS 20)
  message(FATAL_ERROR "the library exports only ${exported} names")
endif()

# Its headers name none of the libraries behind it.
file(GLOB headers ${WORK}/prefix/include/tunefarm/client/*.h)
foreach(header IN LISTS headers)
  file(STRINGS ${header} found REGEX "#include.*(grpc|google|absl|fmt|server/|\\.pb\\.h)")
  if(found)
    message(FATAL_ERROR "${header}: ${found}")
  endif()
endforeach()
