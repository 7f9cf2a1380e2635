# store.cmake - the KV store on a Redis server: built where hiredis is, and refused by name where it is not.
pkg_check_modules(hiredis IMPORTED_TARGET hiredis)
if(hiredis_FOUND)
    set_source_files_properties(src/kv/store/store.c PROPERTIES COMPILE_DEFINITIONS GALLOP_HIREDIS)
else()
    list(FILTER lib_sources EXCLUDE REGEX "/src/kv/store/redis\\.c$")
endif()
