# kernels.cmake - gathers src/kern into kernel_sources; each folder is compiled with the flags in its flags.txt.
#
# A folder of src/kern that has a flags.txt with flags needs an x86-64 machine to compile; ref/ has none and builds
# everywhere. kern512_emulated holds the AVX-512 kernels once more, written out for AVX2 by SIMDe, so that their
# arithmetic is tested on machines that cannot run them. It is linked into the tests of the kernels only, which the thread
# sanitizer does not run.
file(GLOB kernel_sources CONFIGURE_DEPENDS src/kern/*.c)
file(GLOB kernel_folders LIST_DIRECTORIES true CONFIGURE_DEPENDS src/kern/*)
file(GLOB flag_files CONFIGURE_DEPENDS src/kern/*/flags.txt)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${flag_files})
set(is_x86 FALSE)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
    set(is_x86 TRUE)
endif()

# How hard the vector kernels are optimised and watched. Unrolled as they are, a compiler takes minutes to put the checks of
# the sanitizers between their instructions, so these are called instead; the fuzzers, which do not reach them, go without.
# Under the address sanitizer -O2 keeps the sums of a kernel in registers: with -O1 they are in memory, and each addition
# has two checks. Without its expensive optimizations gcc also leaves out VZEROUPPER at the ends of functions, after which
# Intel takes fifty times as long for the scalar code of ref and of libm.
if(GALLOP_FUZZ)
    set(kernel_options -O1 -fno-sanitize=all -fno-sanitize=fuzzer-no-link)
elseif(GALLOP_SANITIZE MATCHES "address" AND CMAKE_C_COMPILER_ID STREQUAL "GNU")
    set(kernel_options -O2 --param=asan-instrumentation-with-call-threshold=0)
elseif(CMAKE_BUILD_TYPE STREQUAL "Release")
    set(kernel_options -O3)
else()
    set(kernel_options -O2)
endif()
# Lines, but not what variables hold, which takes longer than all the rest of an unrolled kernel.
if(NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
    list(APPEND kernel_options -g1)
endif()

# The kernels do not name the emulation: its headers, which are in no shipped object, are included before each source.
set(emulation_flags -DKERN_EMULATE_AVX512 -mavx2 -mfma -mf16c -mbmi2 -Wno-psabi
    -include${CMAKE_SOURCE_DIR}/test/emulated/simd512_emu.h
    -include${CMAKE_SOURCE_DIR}/test/emulated/amx_tile_emu.h)
if(GALLOP_EMULATE)
    set_property(SOURCE ${CMAKE_SOURCE_DIR}/src/base/cpu.c APPEND PROPERTY COMPILE_DEFINITIONS GALLOP_EMULATE)
endif()

set(kernels_of_512)
foreach(folder IN LISTS kernel_folders)
    if(NOT IS_DIRECTORY ${folder})
        continue()
    endif()
    file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${folder}/*.c)
    if(NOT sources) # headers that the other folders share
        continue()
    endif()
    set(flags)
    if(EXISTS ${folder}/flags.txt)
        file(STRINGS ${folder}/flags.txt lines REGEX "^[^#]")
        list(JOIN lines " " flags)
        separate_arguments(flags UNIX_COMMAND "${flags}")
    endif()
    if(flags AND NOT is_x86)
        continue()
    endif()
    if(GALLOP_EMULATE AND folder MATCHES "/(avx512|amx)")
        set(flags ${emulation_flags} -DKERN_EMULATE_ALL)
    endif()
    set_property(SOURCE ${sources} APPEND PROPERTY COMPILE_OPTIONS ${flags} ${kernel_options})
    list(APPEND kernel_sources ${sources})
    if(folder MATCHES "/(avx512|amx)")
        list(APPEND kernels_of_512 ${sources})
    endif()
endforeach()

# Ninja begins in the order of the sources. avx512vnni_blocks.c takes a sixth of the time of the whole program: begun last,
# it would leave the other processors idle.
set(long_kernels ${kernel_sources})
list(FILTER long_kernels INCLUDE REGEX "/(avx512vnni|amx)_blocks\\.c$")
if(long_kernels)
    list(REMOVE_ITEM kernel_sources ${long_kernels})
    list(REVERSE long_kernels) # the longest first
    list(PREPEND kernel_sources ${long_kernels})
endif()

# The largest of the kernels takes two minutes with -O2 and the checks of the address sanitizer, and half a minute with this.
if(GALLOP_SANITIZE MATCHES "address" AND CMAKE_C_COMPILER_ID STREQUAL "GNU")
    set_property(SOURCE ${CMAKE_SOURCE_DIR}/src/kern/avx512vnni/avx512vnni_blocks.c APPEND PROPERTY COMPILE_OPTIONS
        -O1 -fexpensive-optimizations)
endif()

find_path(SIMDE_INCLUDE simde/x86/avx512.h) # looked for again if it was not found
if(GALLOP_TESTS AND NOT GALLOP_EMULATE AND NOT GALLOP_FUZZ AND NOT GALLOP_SANITIZE STREQUAL "thread" AND SIMDE_INCLUDE AND is_x86 AND kernels_of_512)
    # The folders' own flags are a property of the sources, so the copies are compiled under other names.
    set(emulated)
    foreach(source IN LISTS kernels_of_512)
        cmake_path(RELATIVE_PATH source BASE_DIRECTORY ${CMAKE_SOURCE_DIR}/src/kern OUTPUT_VARIABLE name)
        set(copy ${CMAKE_BINARY_DIR}/emulated/${name})
        file(CONFIGURE OUTPUT ${copy} CONTENT "#include \"kern/${name}\"\n" @ONLY)
        list(APPEND emulated ${copy})
    endforeach()
    add_library(kern512_emulated OBJECT ${emulated})
    target_link_libraries(kern512_emulated PUBLIC gallop_flags)
    target_compile_options(kern512_emulated PRIVATE ${kernel_options} ${emulation_flags})
endif()
