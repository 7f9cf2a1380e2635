# tests.cmake - one executable and one ctest entry unit/<floor>/* per file test_*.c of test/unit/<floor> and the folders
# below it, and the entries for test/cli, test/net and examples.
#
# Every test finds the repository in GALLOP_SOURCE_DIR (a macro and an environment variable) and the program in the
# environment variable GALLOP_BIN, and runs in a folder of its own inside the build folder. Other .c files of
# these folders are helpers, linked into each test beside and below them; those of test/unit itself are a library of all
# tests. Each file is compiled with test/unit/test.h in front.
pkg_check_modules(cmocka REQUIRED IMPORTED_TARGET cmocka)

# What ends a test that hangs. No test needs a tenth of it on an idle machine: beside other work one may take many times as
# long, and is not to fail for that.
set(test_seconds 1800)
if(GALLOP_SANITIZE OR CMAKE_BUILD_TYPE STREQUAL "Debug")
    set(test_seconds 5400)
endif()

# Seconds of the long tests on two processors. Of tests that run beside others the longest begin first; where no row tells,
# a test of the program from outside counts 3, any other 1.
set(test_costs
    unit/kern/gemm=44 unit/engine/grid=40 unit/ops/backends=32 unit/engine/company=30 pairs=30 cli/bench=25 cli/serve_operations=20
    unit/ops/moe=22 unit/engine/mixed=22 unit/kern/dot512=15 cli/serve_faults=13 cli/serve_company=13
    unit/kern/attn=12 unit/engine/store=12 cli/pack=12 net/hub=10 cli/numbers=10 cli/verbs=9
    unit/kern/blocks=9 unit/engine/restart=9 unit/engine/oom=8 unit/engine/many=8 cli/serve=8 cli/serve_tls=8
    cli/quantised=8 cli/run=8 unit/kv/windows=6 unit/kern/i4=5 unit/kv/store=5 unit/kv/random=5 unit/lab/bench_fill=4
    unit/kv/adopt=4 unit/engine/beams=4)
set(test_environment
    GALLOP_BIN=${CMAKE_BINARY_DIR}/gallop
    GALLOP_SOURCE_DIR=${CMAKE_SOURCE_DIR}
    ASAN_OPTIONS=allocator_may_return_null=1:detect_stack_use_after_return=1
    UBSAN_OPTIONS=print_stacktrace=1
    TSAN_OPTIONS=halt_on_error=1
    PYTHONDONTWRITEBYTECODE=1)

# Gives the ctest entry NAME its folder, time limit, environment and labels (the remaining arguments).
function(gallop_test_properties name)
    string(REPLACE "/" "." folder ${name})
    file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/run/${folder})
    set_tests_properties(${name} PROPERTIES
        WORKING_DIRECTORY ${CMAKE_BINARY_DIR}/run/${folder}
        TIMEOUT ${test_seconds} SKIP_RETURN_CODE 77
        LABELS "${ARGN}" ENVIRONMENT "${test_environment}")
    set(cost 1)
    if(name MATCHES "^(cli|net)/")
        set(cost 3)
    endif()
    foreach(row IN LISTS test_costs)
        if(row MATCHES "^${name}=(.*)$")
            set(cost ${CMAKE_MATCH_1})
        endif()
    endforeach()
    # A test counts half a processor where it mostly waits for programs that begin and end, else one: `make test` has four
    # halves.
    set(halves 2)
    if(name MATCHES "^(cli|net)/" AND NOT name MATCHES "^cli/(bench|numbers|run|serve_tools)$")
        set(halves 1)
    endif()
    set_tests_properties(${name} PROPERTIES COST ${cost} PROCESSORS ${halves})
endfunction()

# ---- unit tests --------------------------------------------------------------------------------------------------
# Compiles TARGET as a test or a helper of tests.
function(gallop_test_options target)
    target_link_libraries(${target} PRIVATE gallop PkgConfig::cmocka)
    target_include_directories(${target} PRIVATE test/unit)
    target_compile_definitions(${target} PRIVATE GALLOP_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
    target_compile_options(${target} PRIVATE -include ${CMAKE_SOURCE_DIR}/test/unit/test.h)
endfunction()

# Tests that start no thread, which the thread sanitizer need not run.
string(CONCAT one_thread "^engine/(cuts|fair|find_model|guess_speed|guesses|heap|kv_sparse|op_config|outer|shared|waits)$|"
    "^api/(answer|dialect|fields|keys|load|markup|openapi|parser|roles|tools)$|^ops/rope$")
file(GLOB common_helpers CONFIGURE_DEPENDS test/unit/*.c)
add_library(test_helpers STATIC ${common_helpers})
gallop_test_options(test_helpers)
file(GLOB test_sources CONFIGURE_DEPENDS test/unit/*/test_*.c test/unit/*/*/test_*.c)
if(NOT tls_libraries)
    list(FILTER test_sources EXCLUDE REGEX "/net/test_tls\\.c$")
endif()
foreach(source IN LISTS test_sources)
    cmake_path(GET source PARENT_PATH folder)
    string(REGEX REPLACE "^.*/test/unit/([^/]+).*$" "\\1" floor ${folder})
    cmake_path(GET source STEM stem)
    string(REPLACE test_ "" what ${stem})
    if(GALLOP_SANITIZE STREQUAL "thread" AND "${floor}/${what}" MATCHES "${one_thread}")
        continue()
    endif()
    file(GLOB helpers CONFIGURE_DEPENDS test/unit/${floor}/*.c ${folder}/*.c)
    list(FILTER helpers EXCLUDE REGEX "/test_[^/]*$")

    set(labels unit ${floor})
    if(what MATCHES "^(pool|ring|log|mem|store)$" OR
       (floor MATCHES "^(ops|engine|api|python)$" AND NOT what MATCHES "^(config_keys|grid|oom|restart|sample|sampling|cost|mixed|prefix_cache|sched|simulation|waiting|stop|stories|match|history|suffix)$"))
        list(APPEND labels threads)
    elseif(GALLOP_SANITIZE STREQUAL "thread")
        continue() # what has no threads is not compiled for their sanitizer
    endif()
    set(target test_${floor}_${what})
    add_executable(${target} ${source} ${helpers})
    target_link_libraries(${target} PRIVATE test_helpers)
    gallop_test_options(${target})
    target_include_directories(${target} PRIVATE test/unit/${floor} ${folder})
    set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/test)
    if(floor STREQUAL "kern" AND TARGET kern512_emulated)
        target_link_libraries(${target} PRIVATE kern512_emulated)
        target_compile_definitions(${target} PRIVATE KERN_HAVE_EMULATED_AVX512)
    endif()
    if(floor MATCHES "^(app|lab)$")
        string(REPLACE bench_ bench/ source ${what})
        target_sources(${target} PRIVATE src/${floor}/${source}.c) # the library ends below the command line
        if(what STREQUAL "bench_cost")
            target_sources(${target} PRIVATE src/lab/bench/trace.c src/app/print.c src/app/save.c)
        endif()
    endif()
    if("${floor}/${what}" MATCHES "^engine/(frames|artifacts|plugin_file|plugin_process)$")
        if(NOT TARGET faulty_pjrt) # cmake/fuzz.cmake makes fake_pjrt
            add_library(faulty_pjrt MODULE test/pjrt/faulty.c)
            target_include_directories(faulty_pjrt PRIVATE src)
        endif()
        add_dependencies(${target} fake_pjrt faulty_pjrt gallop_program)
        target_compile_definitions(${target} PRIVATE FAKE_PJRT="$<TARGET_FILE:fake_pjrt>")
    endif()
    if(floor STREQUAL "python")
        target_sources(${target} PRIVATE python/native/runner.c)
        target_include_directories(${target} PRIVATE python/native)
    endif()
    add_test(NAME unit/${floor}/${what} COMMAND ${target})
    gallop_test_properties(unit/${floor}/${what} ${labels})
    # Thousands of small steps on two threads: each waits for a slice of the scheduler's where another test computes.
    if("${floor}/${what}" MATCHES "^(engine/(company|config_keys|constraints|engines|many|reasoning)|ops/(attention|imbps|linear))$")
        set_tests_properties(unit/${floor}/${what} PROPERTIES PROCESSORS 4)
    endif()
endforeach()

# ---- pairs of features ---------------------------------------------------------------------------------------------
# Random requests with features beside each other, in company and alone: `make pairs`. A run of the tests has 2000 of them.
file(GLOB pairs_sources CONFIGURE_DEPENDS test/pairs/*.c)
add_executable(pairs ${pairs_sources} test/unit/engine/dying.c test/unit/engine/static_shapes.c)
target_link_libraries(pairs PRIVATE test_helpers)
gallop_test_options(pairs)
target_include_directories(pairs PRIVATE test/pairs)
target_compile_definitions(pairs PRIVATE FAKE_PJRT="$<TARGET_FILE:fake_pjrt>")
add_dependencies(pairs fake_pjrt)
set_target_properties(pairs PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/test)
if(GALLOP_SANITIZE OR CMAKE_BUILD_TYPE STREQUAL "Debug")
    add_test(NAME pairs COMMAND pairs 1 300)
else()
    add_test(NAME pairs COMMAND pairs 1 2000)
endif()
gallop_test_properties(pairs pairs threads)

# ---- the program from outside ------------------------------------------------------------------------------------
find_program(PYTHON3 python3 REQUIRED)
file(GLOB cli_scripts CONFIGURE_DEPENDS test/cli/*.sh test/cli/*.py)
foreach(script IN LISTS cli_scripts)
    cmake_path(GET script STEM what)
    cmake_path(GET script EXTENSION kind)
    if(what MATCHES "^_" OR NOT TARGET gallop_program)
        continue() # _name.py is a module that others import
    endif()
    if(kind STREQUAL ".py")
        add_test(NAME cli/${what} COMMAND ${PYTHON3} ${script})
    else()
        add_test(NAME cli/${what} COMMAND bash ${script})
    endif()
    gallop_test_properties(cli/${what} cli)
endforeach()

# ---- against servers of the tests' own -------------------------------------------------------------------------
file(GLOB net_scripts CONFIGURE_DEPENDS test/net/test_*.py)
foreach(script IN LISTS net_scripts)
    if(TARGET gallop_program)
        cmake_path(GET script STEM what)
        string(REPLACE test_ "" what ${what})
        add_test(NAME net/${what} COMMAND ${PYTHON3} ${script})
        gallop_test_properties(net/${what} net)
    endif()
endforeach()

# ---- examples: they see gallop.h and the shared library, nothing else --------------------------------------------
file(GLOB examples CONFIGURE_DEPENDS examples/*.c)
foreach(source IN LISTS examples)
    cmake_path(GET source STEM what)
    add_executable(example_${what} ${source})
    target_compile_definitions(example_${what} PRIVATE _GNU_SOURCE)
    target_compile_options(example_${what} PRIVATE -Wall -Wextra)
    target_link_libraries(example_${what} PRIVATE gallop_shared m)
    if(GALLOP_SANITIZE)
        target_compile_options(example_${what} PRIVATE -fsanitize=${GALLOP_SANITIZE})
        target_link_options(example_${what} PRIVATE -fsanitize=${GALLOP_SANITIZE})
    endif()
    set_target_properties(example_${what} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/examples)
    add_test(NAME example/${what} COMMAND example_${what} ${CMAKE_SOURCE_DIR}/models/demo)
    gallop_test_properties(example/${what} example threads)
endforeach()

# ---- the binary interface of gallop.h ----------------------------------------------------------------------------
if(CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64" AND NOT GALLOP_SANITIZE)
    add_test(NAME abi COMMAND bash ${CMAKE_SOURCE_DIR}/test/package/abi.sh $<TARGET_FILE:gallop_shared>)
    gallop_test_properties(abi package)
endif()

# ---- what `make install` installs ------------------------------------------------------------------------------
if(examples AND TARGET gallop_program AND TARGET gallop_public AND NOT GALLOP_SANITIZE)
    add_test(NAME package COMMAND bash ${CMAKE_SOURCE_DIR}/test/package/package.sh ${CMAKE_BINARY_DIR})
    gallop_test_properties(package package)
endif()

# ---- the corpora of the fuzzers, replayed --------------------------------------------------------------------------
foreach(source IN LISTS fuzz_sources)
    cmake_path(GET source STEM stem)
    string(REPLACE fuzz_ "" what ${stem})
    add_test(NAME fuzz/${what} COMMAND fuzz_${what} ${CMAKE_SOURCE_DIR}/test/fuzz/corpus/${what})
    gallop_test_properties(fuzz/${what} fuzz)
endforeach()
