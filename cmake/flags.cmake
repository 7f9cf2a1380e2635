# flags.cmake - the language, the floating-point rules and the warnings, as the interface target gallop_flags.
#
# No instruction-set flag stands here: those live beside the kernels they belong to (kernels.cmake).
# -ffp-contract=off: a fused multiply-add is written where it is meant, so results do not depend on the compiler.
set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_C_FLAGS_RELEASE "-O2 -g")
set(CMAKE_C_FLAGS_DEBUG "-Og -g3")
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

add_library(gallop_flags INTERFACE)
target_include_directories(gallop_flags INTERFACE src include)
target_compile_definitions(gallop_flags INTERFACE _GNU_SOURCE GALLOP_VERSION="${PROJECT_VERSION}")
target_compile_options(gallop_flags INTERFACE
    -fvisibility=hidden -ffp-contract=off -fno-math-errno -fno-trapping-math
    -Wall -Wextra -Wshadow -Wmissing-prototypes -Wstrict-prototypes -Wvla)
if(GALLOP_TESTS_SHARED)
    target_compile_options(gallop_flags INTERFACE -fvisibility=default -fno-semantic-interposition)
endif()
if(GALLOP_WERROR)
    target_compile_options(gallop_flags INTERFACE -Werror)
endif()
if(GALLOP_SANITIZE)
    target_compile_options(gallop_flags INTERFACE
        -fsanitize=${GALLOP_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
    target_link_options(gallop_flags INTERFACE -fsanitize=${GALLOP_SANITIZE})
endif()

# The loops of the one are the time of packing with a calibration, that of the other is in front of every linear in int8; -O2 of
# gcc 12 leaves such as do not divide evenly alone.
if(CMAKE_BUILD_TYPE STREQUAL "Release")
    set_source_files_properties(src/ops/gptq.c src/ops/rotate.c PROPERTIES COMPILE_OPTIONS -O3)
endif()

# The floors that read foreign bytes convert no integer silently. No function of the library has more than 160 KiB on
# the stack (sanitizers put more there): what depends on a model's sizes lies in the scratch of the pool's threads.
function(gallop_strict_sources)
    foreach(source IN LISTS ARGN)
        if(NOT GALLOP_SANITIZE)
            set_property(SOURCE ${source} APPEND PROPERTY COMPILE_OPTIONS -Wframe-larger-than=163840)
        endif()
        if(source MATCHES "/src/(base|text|tensor|ckpt|hub|net|api)/")
            set_property(SOURCE ${source} APPEND PROPERTY COMPILE_OPTIONS -Wconversion)
        endif()
    endforeach()
endfunction()
