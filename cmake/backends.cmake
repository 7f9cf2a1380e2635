# backends.cmake - linears of other libraries: `tpp` (LIBXSMM) and `jit` (oneDNN), each in one file of src/ops, built where
# its library is installed and refused by name where it is not. AUTO: if it is there; ON: it has to be; OFF: never.
#
# LIBXSMM is a static library without threads or constructors, which the program pays for with 0.7 MB. oneDNN brings
# OpenMP, OpenCL and C++ with it, so only its header is needed here: src/ops/linear_jit.c loads it when it is asked for.
set(GALLOP_WITH_LIBXSMM AUTO CACHE STRING "Backend tpp, with LIBXSMM (libxsmm-dev): AUTO, ON or OFF")
set(GALLOP_WITH_ONEDNN AUTO CACHE STRING "Backend jit, with oneDNN 2 (libdnnl-dev): AUTO, ON or OFF")
set_property(CACHE GALLOP_WITH_LIBXSMM GALLOP_WITH_ONEDNN PROPERTY STRINGS AUTO ON OFF)

set(backend_libraries)
set(backend_definitions)

# Takes FILE into the build with DEFINITION if it is wished for and FOUND, else leaves it out.
function(gallop_backend wish found file definition package)
    if(wish STREQUAL "ON" AND NOT found)
        message(FATAL_ERROR "${file} needs the package ${package}, which was not found")
    endif()
    if(wish AND found)
        set(backend_definitions ${backend_definitions} ${definition} PARENT_SCOPE)
    else()
        list(FILTER lib_sources EXCLUDE REGEX "/src/ops/${file}\\.c$")
        set(lib_sources ${lib_sources} PARENT_SCOPE)
    endif()
endfunction()

find_path(XSMM_INCLUDE libxsmm.h)
find_library(XSMM_LIBRARY xsmm)
find_library(XSMM_NO_BLAS xsmmnoblas)
set(have_xsmm FALSE)
if(XSMM_INCLUDE AND XSMM_LIBRARY AND XSMM_NO_BLAS AND CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
    set(have_xsmm TRUE)
endif()
gallop_backend("${GALLOP_WITH_LIBXSMM}" ${have_xsmm} linear_tpp GALLOP_LIBXSMM libxsmm-dev)
if("GALLOP_LIBXSMM" IN_LIST backend_definitions)
    set(backend_libraries ${XSMM_LIBRARY} ${XSMM_NO_BLAS})
endif()

# Version 3 has other functions.
set(have_dnnl FALSE)
find_path(DNNL_INCLUDE oneapi/dnnl/dnnl_version.h)
if(DNNL_INCLUDE)
    file(STRINGS ${DNNL_INCLUDE}/oneapi/dnnl/dnnl_version.h dnnl_major REGEX "define DNNL_VERSION_MAJOR +2$")
    if(dnnl_major)
        set(have_dnnl TRUE)
    endif()
endif()
gallop_backend("${GALLOP_WITH_ONEDNN}" ${have_dnnl} linear_jit GALLOP_ONEDNN libdnnl-dev)
set_source_files_properties(src/ops/linear.c PROPERTIES COMPILE_DEFINITIONS "${backend_definitions}")
