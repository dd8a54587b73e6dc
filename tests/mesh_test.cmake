# The programs of each ring's tests (tests/README.md#rings). A ring has those of the rings before
# it.
foreach(ring 1 2 3)
  add_custom_target(mesh_ring${ring}_tests)
endforeach()
# The programs that the thread sanitizer's step runs, and those that the address sanitizer's step
# runs.
add_custom_target(mesh_threads_tests)
add_custom_target(mesh_product_tests)

# mesh_ring(RING tests... [NEEDS targets...]): the first ring in which these tests run, and the
# programs that they start.
function(mesh_ring first)
  cmake_parse_arguments(ARG "" "" "NEEDS" ${ARGN})
  set_property(TEST ${ARG_UNPARSED_ARGUMENTS} APPEND PROPERTY LABELS ring${first})
  foreach(need ${ARG_NEEDS})
    if(TARGET ${need})  # a tool whose library is not here is not built
      foreach(ring RANGE ${first} 3)
        add_dependencies(mesh_ring${ring}_tests ${need})
      endforeach()
    endif()
  endforeach()
endfunction()

# mesh_test(NAME sources... LIBS libraries... [LABELS labels...] [TIMEOUT seconds] [RING ring]
# [COST seconds] [SHARDS n]): one GoogleTest binary, one ctest entry per binary so that ctest's own
# overhead stays small. It belongs to ring 1 unless RING names a later one. Tests of a higher COST
# begin first. With SHARDS its tests, which mostly wait, run in so many processes at a time. After
# set(MESH_TESTS_OF_TOOLS ON) it is a test of the tools beside the product: it belongs to ring 2,
# and only ring 3 runs it under sanitizers.
function(mesh_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT;RING;COST;SHARDS" "LIBS;LABELS" ${ARGN})
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE ${ARG_LIBS} GTest::gtest GTest::gtest_main)
  if(TARGET mesh_test_prelude)
    target_precompile_headers(${name} REUSE_FROM mesh_test_prelude)
  endif()
  set(command ${name})
  if(ARG_SHARDS)
    set(command ${PROJECT_SOURCE_DIR}/tests/shards ${ARG_SHARDS} ${CMAKE_CROSSCOMPILING_EMULATOR}
      $<TARGET_FILE:${name}>)
  endif()
  add_test(NAME ${name} COMMAND ${command})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 1800)  # thirty times what the longest takes: only what hangs ends by the clock
  endif()
  if(NOT ARG_RING)
    set(ARG_RING 1)
    if(MESH_TESTS_OF_TOOLS)
      set(ARG_RING 2)
    endif()
  endif()
  # The configuration of this machine's user must not decide a test.
  set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} ENVIRONMENT
    "NCCL_CONF_FILE=/dev/null")
  if(ARG_COST)
    set_tests_properties(${name} PROPERTIES COST ${ARG_COST})
  endif()
  if("threads" IN_LIST ARG_LABELS)
    add_dependencies(mesh_threads_tests ${name})
  endif()
  if(MESH_TESTS_OF_TOOLS)
    list(APPEND ARG_LABELS tools)
  elseif(NOT "variants" IN_LIST ARG_LABELS)
    add_dependencies(mesh_product_tests ${name})
  endif()
  if(ARG_LABELS)
    set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}")
  endif()
  mesh_ring(${ARG_RING} ${name} NEEDS ${name})
endfunction()

# mesh_long_under_sanitizers(NAME patterns... [COMMAND command...]): tests of NAME that take long
# under sanitizers and resemble others of NAME. Sanitizers run them in ring 3 only, as NAME_long,
# which fails if no test matches. COMMAND is needed where NAME runs a program of another name.
function(mesh_long_under_sanitizers name)
  if(NOT MESH_SANITIZE)
    return()
  endif()
  cmake_parse_arguments(ARG "" "" "COMMAND" ${ARGN})
  if(NOT ARG_COMMAND)
    set(ARG_COMMAND ${name})
  endif()
  list(JOIN ARG_UNPARSED_ARGUMENTS ":" patterns)
  get_test_property(${name} ENVIRONMENT environment)
  add_test(NAME ${name}_long COMMAND ${ARG_COMMAND})
  set_tests_properties(${name}_long PROPERTIES TIMEOUT 1800
    FAIL_REGULAR_EXPRESSION "Running 0 tests"
    ENVIRONMENT "${environment};GTEST_FILTER=${patterns}")
  mesh_ring(3 ${name}_long)
  set_tests_properties(${name} PROPERTIES ENVIRONMENT "${environment};GTEST_FILTER=-${patterns}")
endfunction()
