# Debian packages of a build for the prefix /usr, as the preset deb makes one (./dev deb). A component here is a package of
# that name; none of it belongs to a plain `cmake --install`.
if(NOT CMAKE_INSTALL_PREFIX STREQUAL "/usr")
  message(FATAL_ERROR "TUNEFARM_DEB needs -DCMAKE_INSTALL_PREFIX=/usr; the preset deb sets it.")
endif()
foreach(target tunefarm tunefarmd tunefarm-worker tunefarm_client tunefarm_launch_static tunefarm_wheel)
  if(NOT TARGET ${target})
    message(FATAL_ERROR "Packages hold ${target}, which this tree does not build.")
  endif()
endforeach()
find_program(GZIP gzip REQUIRED)
set(debian ${PROJECT_SOURCE_DIR}/server/cmake/debian)
set(made ${PROJECT_BINARY_DIR}/debian)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_PACKAGE_CONTACT "tunefarm developers <tunefarm@tunefarm.invalid>")

# deb_install(PACKAGE ...): install() for one package.
function(deb_install package)
  list(FIND ARGN DESTINATION place)
  math(EXPR place "${place} + 2")  # install() wants a component before patterns
  list(INSERT ARGN ${place} COMPONENT ${package} EXCLUDE_FROM_ALL)
  install(${ARGN})
endfunction()

# --- What is generated
file(READ ${PROJECT_SOURCE_DIR}/LICENSE license)
string(STRIP "${license}" license)
string(REPLACE "\n" "\n " license " ${license}")
string(REPLACE "\n \n" "\n .\n" license "${license}")  # a field's empty line
configure_file(${debian}/copyright.in ${made}/copyright @ONLY)
# The date of SOURCE_DATE_EPOCH where that is set.
string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)
configure_file(${debian}/changelog.in ${made}/changelog.Debian @ONLY)
foreach(pair "${made}/changelog.Debian|changelog.Debian.gz" "${PROJECT_SOURCE_DIR}/CHANGELOG.md|changelog.gz")
  string(REPLACE "|" ";" pair ${pair})
  list(GET pair 0 from)
  list(GET pair 1 to)
  # -n: neither name nor time of the file.
  execute_process(COMMAND ${GZIP} -9nc ${from} OUTPUT_FILE ${made}/${to} COMMAND_ERROR_IS_FATAL ANY)
endforeach()

find_package(Python3 COMPONENTS Interpreter REQUIRED)
set(page ${PROJECT_SOURCE_DIR}/server/cmake/man_page.py)
set(pages)
foreach(name tunefarm.1 tunefarmd.8)
  string(REGEX REPLACE "\\.(.)$" ";\\1" parts ${name})
  list(GET parts 0 program)
  list(GET parts 1 section)
  add_custom_command(OUTPUT ${made}/${name}.gz
    COMMAND Python3::Interpreter ${page} $<TARGET_FILE:${program}> ${section} ${made}/${name}.gz
    DEPENDS ${program} ${page} VERBATIM)
  list(APPEND pages ${made}/${name}.gz)
endforeach()
set(completions)
foreach(shell bash zsh fish)
  add_custom_command(OUTPUT ${made}/completion.${shell}
    COMMAND tunefarm completion ${shell} > ${made}/completion.${shell} DEPENDS tunefarm VERBATIM)
  list(APPEND completions ${made}/completion.${shell})
endforeach()
add_custom_command(OUTPUT ${made}/tunefarmd.toml
  COMMAND tunefarmd --print-example-config > ${made}/tunefarmd.toml DEPENDS tunefarmd VERBATIM)
set(wheel ${PROJECT_BINARY_DIR}/tunefarm-${PROJECT_VERSION}-py3-none-any.whl)
# What pip would install, so that pip and importlib.metadata know the package.
set(info ${made}/python/tunefarm-${PROJECT_VERSION}.dist-info)
add_custom_command(OUTPUT ${info}/METADATA
  COMMAND ${CMAKE_COMMAND} -E make_directory ${made}/python
  COMMAND ${CMAKE_COMMAND} -E chdir ${made}/python ${CMAKE_COMMAND} -E tar xf ${wheel}
  COMMAND ${CMAKE_COMMAND} -E touch ${info}/METADATA
  DEPENDS tunefarm_wheel ${wheel} VERBATIM)
file(WRITE ${made}/INSTALLER "debian\n")
add_custom_target(tunefarm_deb_files ALL DEPENDS ${pages} ${completions} ${made}/tunefarmd.toml ${info}/METADATA)

# --- tunefarm: programs and the service
set(libdir ${CMAKE_INSTALL_LIBDIR})
deb_install(tunefarm TARGETS tunefarm tunefarmd RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
deb_install(tunefarm TARGETS tunefarm-worker RUNTIME DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/tunefarm)
deb_install(tunefarm DIRECTORY ${PROJECT_SOURCE_DIR}/kernels/ DESTINATION share/tunefarm/kernels
  PATTERN CMakeLists.txt EXCLUDE PATTERN __pycache__ EXCLUDE)
deb_install(tunefarm DIRECTORY ${PROJECT_SOURCE_DIR}/server/daemon/deploy/systemd/ DESTINATION /lib/systemd/system)
deb_install(tunefarm DIRECTORY ${PROJECT_SOURCE_DIR}/server/daemon/deploy DESTINATION share/doc/tunefarm
  PATTERN systemd EXCLUDE)
deb_install(tunefarm FILES ${PROJECT_SOURCE_DIR}/server/daemon/OPERATING.md DESTINATION share/doc/tunefarm)
deb_install(tunefarm FILES ${made}/tunefarmd.toml DESTINATION /etc/tunefarm)
deb_install(tunefarm FILES ${made}/tunefarm.1.gz DESTINATION share/man/man1)
deb_install(tunefarm FILES ${made}/tunefarmd.8.gz DESTINATION share/man/man8)
deb_install(tunefarm FILES ${made}/completion.bash DESTINATION share/bash-completion/completions RENAME tunefarm)
deb_install(tunefarm FILES ${made}/completion.zsh DESTINATION share/zsh/vendor-completions RENAME _tunefarm)
deb_install(tunefarm FILES ${made}/completion.fish DESTINATION share/fish/vendor_completions.d RENAME tunefarm.fish)

# --- Libraries
set(dev libtunefarm-client-dev)
deb_install(libtunefarm-launch1 TARGETS tunefarm_launch LIBRARY DESTINATION ${libdir} NAMELINK_SKIP)
deb_install(libtunefarm-client0 TARGETS tunefarm_client LIBRARY DESTINATION ${libdir} NAMELINK_SKIP)
deb_install(${dev} TARGETS tunefarm_launch tunefarm_client LIBRARY DESTINATION ${libdir} NAMELINK_ONLY)
deb_install(${dev} TARGETS tunefarm_launch_static ARCHIVE DESTINATION ${libdir})
foreach(name launch;client)
  set(place ${CMAKE_INSTALL_LIBDIR}/cmake/tunefarm_${name})
  string(REPLACE client cpp folder ${name})
  deb_install(${dev} DIRECTORY ${PROJECT_SOURCE_DIR}/client/${folder}/include/tunefarm DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  deb_install(${dev} EXPORT tunefarm_${name} NAMESPACE tunefarm:: FILE tunefarm_${name}-config.cmake DESTINATION ${place})
  deb_install(${dev} FILES ${PROJECT_BINARY_DIR}/client/${folder}/tunefarm_${name}-config-version.cmake DESTINATION ${place})
  deb_install(${dev} FILES ${PROJECT_BINARY_DIR}/client/${folder}/tunefarm-${name}.pc DESTINATION ${libdir}/pkgconfig)
endforeach()
deb_install(${dev} DIRECTORY ${PROJECT_SOURCE_DIR}/client/cpp/examples ${PROJECT_SOURCE_DIR}/client/examples
  DESTINATION share/doc/${dev})
deb_install(${dev} FILES ${PROJECT_SOURCE_DIR}/client/launch/README.md DESTINATION share/doc/${dev} RENAME launch.md)
deb_install(${dev} FILES ${PROJECT_SOURCE_DIR}/client/cpp/README.md DESTINATION share/doc/${dev} RENAME client.md)

# --- Python
set(python lib/python3/dist-packages)
deb_install(python3-tunefarm DIRECTORY ${PROJECT_BINARY_DIR}/python/tunefarm DESTINATION ${python}
  PATTERN __pycache__ EXCLUDE)
deb_install(python3-tunefarm FILES ${info}/METADATA ${made}/INSTALLER
  DESTINATION ${python}/tunefarm-${PROJECT_VERSION}.dist-info)
deb_install(python3-tunefarm DIRECTORY ${PROJECT_SOURCE_DIR}/client/python/examples DESTINATION share/doc/python3-tunefarm)
deb_install(python3-tunefarm FILES ${PROJECT_SOURCE_DIR}/client/examples/moe_layer_torch.py
  DESTINATION share/doc/python3-tunefarm/examples)
deb_install(python3-tunefarm FILES ${PROJECT_SOURCE_DIR}/client/python/README.md DESTINATION share/doc/python3-tunefarm)

# --- The packages
# deb_package(NAME SECTION section SUMMARY one line DESCRIPTION lines [ARCHITECTURE all] [CONTROL files]
#             [DEPENDS|RECOMMENDS|SUGGESTS text] [SHLIBDEPS] [SHLIBS])
#   SHLIBDEPS: it depends on what its programs and libraries are linked with. SHLIBS: others may be linked with its own.
macro(deb_package name)
  cmake_parse_arguments(ARG "SHLIBDEPS;SHLIBS" "SECTION;SUMMARY;DESCRIPTION;ARCHITECTURE;DEPENDS;RECOMMENDS;SUGGESTS" "CONTROL"
    ${ARGN})
  string(TOUPPER ${name} upper)
  list(APPEND CPACK_COMPONENTS_ALL ${name})
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${name})
  set(CPACK_DEBIAN_${upper}_PACKAGE_SECTION ${ARG_SECTION})
  set(CPACK_DEBIAN_${upper}_DESCRIPTION "${ARG_SUMMARY}\n${ARG_DESCRIPTION}")
  foreach(field DEPENDS RECOMMENDS SUGGESTS)
    set(CPACK_DEBIAN_${upper}_PACKAGE_${field} "${ARG_${field}}")
  endforeach()
  if(ARG_ARCHITECTURE)
    set(CPACK_DEBIAN_${upper}_PACKAGE_ARCHITECTURE ${ARG_ARCHITECTURE})
  endif()
  if(NOT ${name} STREQUAL tunefarm)
    set(CPACK_DEBIAN_${upper}_PACKAGE_SOURCE tunefarm)
  endif()
  set(CPACK_DEBIAN_${upper}_PACKAGE_SHLIBDEPS ${ARG_SHLIBDEPS})
  set(control)
  if(ARG_SHLIBS)
    string(REGEX REPLACE "^(.*[^0-9])([0-9]+)$" "\\1 \\2 ${name} (>= ${PROJECT_VERSION})\n" shlibs ${name})
    file(WRITE ${made}/${name}/shlibs "${shlibs}")
    list(APPEND control ${made}/${name}/shlibs ${debian}/library/triggers)
  endif()
  foreach(file ${ARG_CONTROL})
    list(APPEND control ${debian}/${name}/${file})
  endforeach()
  set(CPACK_DEBIAN_${upper}_PACKAGE_CONTROL_EXTRA ${control})
  set(CPACK_DEBIAN_${upper}_PACKAGE_CONTROL_STRICT_PERMISSION TRUE)
  deb_install(${name} FILES ${made}/copyright ${made}/changelog.Debian.gz ${made}/changelog.gz DESTINATION share/doc/${name})
endmacro()

set(exactly "(= ${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE})")
set(CPACK_COMPONENTS_ALL)
# No semicolon in a description: CMake would take it for the end of an argument.
deb_package(tunefarm SECTION devel SHLIBDEPS CONTROL conffiles postinst prerm postrm
  DEPENDS adduser
  RECOMMENDS "g++"
  SUGGESTS "libpq5, libtunefarm-launch1, python3-tunefarm"
  SUMMARY "GPU kernel tuning as a service: daemon and command line"
  DESCRIPTION
"tunefarm compiles every config of a GPU or CPU kernel, runs each one in a
process that may crash, checks its output against a reference, measures it,
and stores the best config for each kernel, problem and device.

This package holds the daemon with its worker and its units for systemd, the
command line and the built-in kernels. The NVIDIA driver, NVRTC and cuBLAS are
found at run time where the machine has them. Without them kernels in C++ are
tuned on the CPU, which needs g++. PostgreSQL as the store needs libpq5.")
deb_package(libtunefarm-launch1 SECTION libs SHLIBDEPS SHLIBS
  SUMMARY "launches tuned GPU kernels from packages"
  DESCRIPTION
"libtunefarm-launch reads packages of tuned kernels, which tunefarm exports, and
launches them in a process of any kind, with the config that was found best for
the sizes of the launch. It needs neither a daemon nor another library. The
CUDA driver is opened when a CUDA kernel is loaded.

This package holds the shared library.")
deb_package(libtunefarm-client0 SECTION libs SHLIBDEPS SHLIBS
  SUMMARY "C++ client of tunefarm, GPU kernel tuning as a service"
  DESCRIPTION
"libtunefarm-client asks a tunefarm daemon, or a snapshot file, which config of
a kernel is best for a problem and a device, and answers from a cache that
follows the daemon. It also submits and follows tuning jobs.

This package holds the shared library.")
deb_package(${dev} SECTION libdevel
  DEPENDS "libtunefarm-client0 ${exactly}, libtunefarm-launch1 ${exactly}"
  SUMMARY "launching and looking up tuned kernels: development files"
  DESCRIPTION
"Headers, package files for CMake and pkg-config, and examples of two libraries
of tunefarm, a service that tunes GPU kernels: libtunefarm-launch, which
launches tuned kernels in C and C++, and libtunefarm-client, the C++ client.
The former is here as a static library, too.")
deb_package(python3-tunefarm SECTION python ARCHITECTURE all CONTROL postinst prerm
  DEPENDS "python3 (>= 3.9), python3-grpcio (>= 1.51), python3-protobuf (>= 3.21)"
  RECOMMENDS "libtunefarm-launch1, python3-numpy, tunefarm"
  SUGGESTS "python3-matplotlib, python3-pandas, python3-tqdm"
  SUMMARY "Python client of tunefarm, GPU kernel tuning as a service"
  DESCRIPTION
"This package submits and follows tuning jobs, looks best configs up, and
launches tuned kernels on arrays of NumPy, CuPy, PyTorch and others. Without a
daemon elsewhere it starts a private one by the programs of the package
tunefarm.")

set(CPACK_GENERATOR DEB)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR}/packages)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
# Each package has its own; CPack would put this one before all of them.
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "")
include(CPack)
