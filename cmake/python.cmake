# python.cmake - the Python package `gallop`: the extension module _gallop, the program and the demo model.
#
# pyproject.toml sets GALLOP_PYTHON and installs the component "python" into the wheel. The module has the whole library
# inside and uses Python's limited API, so that one build serves Python 3.9 and all later ones. Its C source is made from
# gallop.h by cffi, which the interpreter Python_EXECUTABLE must have.
#
# GALLOP_PYTHON_FROM is another build folder whose library and program are taken as they are, so that nothing is compiled
# twice where one exists already (make test-python).
option(GALLOP_PYTHON "Build the Python package" OFF)
set(GALLOP_PYTHON_FROM "" CACHE PATH "Build folder whose library and program the Python package takes")
if(NOT GALLOP_PYTHON)
    return()
endif()
find_package(Python 3.9 REQUIRED COMPONENTS Interpreter Development.Module)

set(python_folder ${CMAKE_BINARY_DIR}/python)
set(python_native ${CMAKE_SOURCE_DIR}/python/native)
file(MAKE_DIRECTORY ${python_folder})
add_custom_command(OUTPUT ${python_folder}/_gallop.c
    COMMAND ${Python_EXECUTABLE} ${python_native}/generate.py source ${CMAKE_SOURCE_DIR}/include/gallop.h
            ${python_native}/runner.h ${python_folder}/_gallop.c
    DEPENDS ${python_native}/generate.py ${python_native}/runner.h include/gallop.h VERBATIM)
add_custom_command(OUTPUT ${python_folder}/_names.py
    COMMAND ${Python_EXECUTABLE} ${python_native}/generate.py names ${CMAKE_SOURCE_DIR}/include/gallop.h
            ${python_folder}/_names.py
    DEPENDS ${python_native}/generate.py include/gallop.h VERBATIM)
add_custom_command(OUTPUT ${python_folder}/_gallop.pyi
    COMMAND ${Python_EXECUTABLE} ${python_native}/generate.py stub ${CMAKE_SOURCE_DIR}/include/gallop.h
            ${python_native}/runner.h ${python_folder}/_gallop.pyi
    DEPENDS ${python_native}/generate.py ${python_native}/runner.h include/gallop.h VERBATIM)
set_source_files_properties(${python_folder}/_gallop.c PROPERTIES COMPILE_OPTIONS -w)

add_library(gallop_python MODULE ${python_folder}/_gallop.c ${python_native}/runner.c ${python_folder}/_names.py
    ${python_folder}/_gallop.pyi)
set_target_properties(gallop_python PROPERTIES PREFIX "" OUTPUT_NAME _gallop SUFFIX .abi3.so)
target_include_directories(gallop_python PRIVATE ${python_native} ${Python_INCLUDE_DIRS})
if(GALLOP_PYTHON_FROM)
    target_link_libraries(gallop_python PRIVATE gallop_flags ${GALLOP_PYTHON_FROM}/libgallop.a ${tls_libraries}
        ${backend_libraries} PkgConfig::deps $<TARGET_NAME_IF_EXISTS:PkgConfig::hiredis> Threads::Threads m)
else()
    target_link_libraries(gallop_python PRIVATE gallop)
endif()
target_link_options(gallop_python PRIVATE LINKER:--exclude-libs,ALL)

install(TARGETS gallop_python LIBRARY DESTINATION gallop COMPONENT python)
install(FILES ${python_folder}/_names.py ${python_folder}/_gallop.pyi DESTINATION gallop COMPONENT python)
install(DIRECTORY models/demo DESTINATION gallop/models COMPONENT python PATTERN README.md EXCLUDE)

# The program goes into the wheel without debugging information, which is three quarters of it.
if(GALLOP_PYTHON_FROM)
    set(python_program ${GALLOP_PYTHON_FROM}/gallop)
else()
    set(python_program $<TARGET_FILE:gallop_program>)
    add_dependencies(gallop_python gallop_program)
endif()
add_custom_command(TARGET gallop_python POST_BUILD
    COMMAND ${CMAKE_STRIP} -o ${python_folder}/gallop ${python_program} VERBATIM)
install(PROGRAMS ${python_folder}/gallop DESTINATION gallop/bin COMPONENT python)
