# install.cmake - the program, gallop.h, both libraries, the pkg-config file, the man page, the completions of shells,
# the demo model and the examples, which find it through pkg-config.
#
# The target gallop_installed builds all of that and nothing else. The installed libgallop.a is one object in which every symbol but those of gallop.h has been made local: names such
# as mem_alloc cannot meet the user's own.
include(GNUInstallDirs)
add_custom_target(gallop_installed)

if(TARGET gallop_program)
    install(TARGETS gallop_program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
    # The program prints its manual page and the completions itself.
    function(gallop_printed file)
        set(path ${CMAKE_BINARY_DIR}/${file})
        add_custom_command(OUTPUT ${path}
            COMMAND gallop_program help ${ARGN} > ${path}.part
            COMMAND ${CMAKE_COMMAND} -E rename ${path}.part ${path}
            DEPENDS gallop_program VERBATIM)
    endfunction()
    file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/completion)
    gallop_printed(gallop.1 --man)
    gallop_printed(completion/gallop --completion bash)
    gallop_printed(completion/_gallop --completion zsh)
    gallop_printed(completion/gallop.fish --completion fish)
    add_custom_target(gallop_manual ALL DEPENDS ${CMAKE_BINARY_DIR}/gallop.1 ${CMAKE_BINARY_DIR}/completion/gallop
        ${CMAKE_BINARY_DIR}/completion/_gallop ${CMAKE_BINARY_DIR}/completion/gallop.fish)
    add_dependencies(gallop_installed gallop_program gallop_manual)
    install(FILES ${CMAKE_BINARY_DIR}/gallop.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
    install(FILES ${CMAKE_BINARY_DIR}/completion/gallop
            DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
    install(FILES ${CMAKE_BINARY_DIR}/completion/_gallop DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
    install(FILES ${CMAKE_BINARY_DIR}/completion/gallop.fish
            DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
endif()
if(NOT GALLOP_FUZZ AND NOT GALLOP_SANITIZE AND EXISTS ${CMAKE_SOURCE_DIR}/include/gallop.h)
    set(archive ${CMAKE_BINARY_DIR}/public/libgallop.a)
    find_program(OBJCOPY objcopy REQUIRED)
    file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/public)
    add_custom_command(OUTPUT ${archive}
        COMMAND ${CMAKE_LINKER} -r -o public/gallop.o --whole-archive $<TARGET_FILE:gallop>
        COMMAND ${OBJCOPY} --localize-hidden public/gallop.o
        COMMAND ${CMAKE_COMMAND} -E rm -f ${archive}
        COMMAND ${CMAKE_AR} rcs ${archive} public/gallop.o
        DEPENDS gallop WORKING_DIRECTORY ${CMAKE_BINARY_DIR} VERBATIM)
    add_custom_target(gallop_public ALL DEPENDS ${archive})
    add_dependencies(gallop_installed gallop_public gallop_shared)

    install(FILES include/gallop.h TYPE INCLUDE)
    install(FILES ${archive} TYPE LIB)
    install(TARGETS gallop_shared LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})

    file(RELATIVE_PATH pc_includedir ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_FULL_INCLUDEDIR})
    file(RELATIVE_PATH pc_demo ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_FULL_DATADIR}/gallop/models/demo)
    set(pc_libraries ${deps_LIBRARIES} ${hiredis_LIBRARIES})
    if(tls_libraries)
        list(PREPEND pc_libraries event_openssl ssl)
    endif()
    if(backend_libraries)
        list(PREPEND pc_libraries xsmm xsmmnoblas)
    endif()
    list(TRANSFORM pc_libraries PREPEND -l OUTPUT_VARIABLE pc_private)
    list(JOIN pc_private " " pc_private)
    # A program finds the shared library where it was linked, unless the system's loader looks there anyway. /usr/local/lib
    # is not such a place: the loader's cache knows a new library there only after ldconfig.
    set(pc_rpath " -Wl,-rpath,\${libdir}")
    if(CMAKE_INSTALL_FULL_LIBDIR MATCHES "^(/usr)?/lib(64|/[^/]+)?$")
        set(pc_rpath "")
    endif()
    configure_file(cmake/gallop.pc.in gallop.pc @ONLY)
    # -lgallop takes the shared library where both are installed, whatever `pkg-config --static` adds to it.
    configure_file(cmake/gallop-static.pc.in gallop-static.pc @ONLY)
    install(DIRECTORY examples DESTINATION ${CMAKE_INSTALL_DATADIR}/gallop FILES_MATCHING PATTERN "*.c" PATTERN Makefile
            PATTERN python EXCLUDE)
    install(FILES ${CMAKE_BINARY_DIR}/gallop.pc ${CMAKE_BINARY_DIR}/gallop-static.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endif()
if(EXISTS ${CMAKE_SOURCE_DIR}/models/demo)
    install(DIRECTORY models/demo DESTINATION ${CMAKE_INSTALL_DATADIR}/gallop/models)
endif()
