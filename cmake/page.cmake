# page.cmake - the files of the server's page (src/page) as a library that the program links: gallop_page.
#
# Each file is taken into the program by .incbin, as it is and packed by gzip, with a digest of its bytes as ETag.
# Libraries of others come from Debian's packages; without one the page does without it (src/page/library.js). Their
# licences go with them, as the packages' copyright files. Fonts are packed already and taken in once.
set(page_folder ${CMAKE_BINARY_DIR}/page)
find_program(GZIP gzip REQUIRED)

# page_file(PATH FILE): FILE is served at PATH.
set(page_files 0)
file(WRITE ${page_folder}/page_files.S.part ".section .rodata\n")
file(WRITE ${page_folder}/page_files.def.part "/* page_files.def - the files of the page. Written by the build. */\n")
function(page_file path file)
    cmake_path(GET path EXTENSION LAST_ONLY extension)
    set(type "text/html") # of the path "/"
    if(extension STREQUAL ".js")
        set(type "text/javascript")
    elseif(extension STREQUAL ".css")
        set(type "text/css")
    elseif(extension STREQUAL ".txt")
        set(type "text/plain")
    elseif(extension STREQUAL ".svg")
        set(type "image/svg+xml")
    elseif(extension STREQUAL ".woff2")
        set(type "font/woff2")
    endif()
    file(SHA256 ${file} digest)
    string(SUBSTRING ${digest} 0 20 digest)
    set(n ${page_files})
    set(packed ${page_folder}/${n}.gz)
    if(type STREQUAL "font/woff2")
        file(WRITE ${packed} "")
    else()
        execute_process(COMMAND ${GZIP} -9nc ${file} OUTPUT_FILE ${packed} COMMAND_ERROR_IS_FATAL ANY)
        string(APPEND type "; charset=utf-8")
    endif()
    foreach(row "page_file_${n};${file}" "page_packed_${n};${packed}")
        list(GET row 0 name)
        list(GET row 1 source)
        file(APPEND ${page_folder}/page_files.S.part
            ".global ${name}, ${name}_end\n.hidden ${name}, ${name}_end\n${name}: .incbin \"${source}\"\n${name}_end:\n")
    endforeach()
    file(APPEND ${page_folder}/page_files.def.part "PAGE_FILE(${n}, \"${path}\", \"${type}\", \"${digest}\")\n")
    set_property(DIRECTORY ${CMAKE_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
    math(EXPR n "${n} + 1")
    set(page_files ${n} PARENT_SCOPE)
endfunction()

# ---- libraries of others: name, file, package, licence --------------------------------------------------------------
set(page_library_rows)
foreach(row
    "marked|/usr/share/javascript/marked/marked.min.js|libjs-marked|MIT"
    "dompurify|/usr/share/nodejs/dompurify/dist/purify.min.js|node-dompurify|Apache-2.0 or MPL-2.0"
    "highlight.js|/usr/share/javascript/highlight.js/highlight.min.js|libjs-highlight.js|BSD-3-Clause"
    "chart.js|/usr/share/javascript/chart.js/chart.min.js|libjs-chart.js|MIT"
    "katex|/usr/share/javascript/katex/katex.min.js|libjs-katex|MIT")
    string(REPLACE "|" ";" row "${row}")
    list(GET row 0 name)
    list(GET row 1 script)
    list(GET row 2 package)
    list(GET row 3 licence)
    set(notice /usr/share/doc/${package}/copyright)
    if(NOT GALLOP_PAGE_LIBRARIES OR NOT EXISTS ${script} OR NOT EXISTS ${notice})
        message(STATUS "the page goes without ${name} (package ${package})")
        continue()
    endif()
    execute_process(COMMAND dpkg-query -W -f "\${Version}" ${package}
                    OUTPUT_VARIABLE version ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
    string(REGEX REPLACE "[+-].*" "" version "${version}")
    string(REGEX REPLACE "[.]js$" "" stem ${name})
    page_file(/page/library/${stem}.js ${script})
    page_file(/page/licence/${stem}.txt ${notice})
    if(name STREQUAL "katex") # its style sheet names fonts/KaTeX_*.woff2; without them formulas have the browser's fonts
        page_file(/page/library/katex.css /usr/share/javascript/katex/katex.min.css)
        file(GLOB fonts CONFIGURE_DEPENDS /usr/share/fonts/truetype/katex/*.woff2)
        foreach(font IN LISTS fonts)
            cmake_path(GET font FILENAME font_name)
            page_file(/page/library/fonts/${font_name} ${font})
        endforeach()
    endif()
    list(APPEND page_library_rows "[\"${name}\", \"${version}\", \"${licence}\"]")
endforeach()
list(JOIN page_library_rows ", " page_library_rows)
configure_file(src/page/libraries.js.in ${page_folder}/libraries.js @ONLY)
page_file(/page/libraries.js ${page_folder}/libraries.js)

# ---- own files ------------------------------------------------------------------------------------------------------
page_file(/ ${CMAKE_SOURCE_DIR}/src/page/index.html)
file(GLOB own_files CONFIGURE_DEPENDS src/page/*.js src/page/*.css src/page/*.svg)
foreach(file IN LISTS own_files)
    cmake_path(GET file FILENAME name)
    page_file(/page/${name} ${file})
endforeach()

file(APPEND ${page_folder}/page_files.S.part ".section .note.GNU-stack, \"\", %progbits\n")
foreach(name page_files.S page_files.def)
    configure_file(${page_folder}/${name}.part ${page_folder}/${name} COPYONLY)
endforeach()
set_source_files_properties(${page_folder}/page_files.S PROPERTIES OBJECT_DEPENDS ${page_folder}/page_files.def)

add_library(gallop_page STATIC src/page/page.c ${page_folder}/page_files.S)
target_include_directories(gallop_page PRIVATE ${CMAKE_BINARY_DIR}) # page/page_files.def
target_link_libraries(gallop_page PUBLIC gallop)
